mr_needs(mr_loaders URING loaders/reader_uring.c)
mr_needs(mr_loaders CURL loaders/remote_attempt.c loaders/remote_engine.c loaders/remote_judge.c loaders/remote_plain.c
  loaders/remote_sum.c)
mr_needs(mr_loaders "CURL;MICROHTTPD" loaders/remote_serve.c)
mr_needs(mr_loaders ZSTD loaders/decompress.c loaders/decompress_keep.c loaders/codec_zstd.c)
mr_needs(mr_loaders BROTLI loaders/codec_brotli.c)
