mr_needs(mr_loaders URING loaders/reader_uring.c)
