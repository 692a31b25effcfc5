mr_needs(mr_loaders_local URING loaders/local/reader_uring.c)
mr_needs(mr_loaders_remote CURL loaders/remote/remote_attempt.c loaders/remote/remote_engine.c
  loaders/remote/remote_judge.c loaders/remote/remote_plain.c loaders/remote/remote_proof.c loaders/remote/remote_sum.c)
mr_needs(mr_loaders_remote "CURL;MICROHTTPD" loaders/remote/remote_serve.c)
mr_needs(mr_loaders_shards ZSTD loaders/shards/decompress.c loaders/shards/decompress_keep.c loaders/shards/codec_zstd.c)
mr_needs(mr_loaders_shards BROTLI loaders/shards/codec_brotli.c)
