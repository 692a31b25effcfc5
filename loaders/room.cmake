mr_needs(mr_loaders URING loaders/reader_uring.c)
mr_needs(mr_loaders CURL loaders/remote_engine.c loaders/remote_sum.c)
mr_needs(mr_loaders ZSTD loaders/decompress.c)
