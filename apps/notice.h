/* What the program says once about how it runs, however many readers and graphs it opens. */
#ifndef MR_APPS_NOTICE_H
#define MR_APPS_NOTICE_H

/* If a reader had to do without io_uring, one line on standard error says why the records come
   slower; at the first call after that happened, and never again. */
void mr_notice_reader(void);

#endif
