/* Notices that the program prints once, however many readers and graphs it opens. */
#ifndef MR_APPS_NOTICE_H
#define MR_APPS_NOTICE_H

/* If a reader fell back from its preferred way (loaders/reader.h), prints why on standard error, at
   the first call after that and never again.  Any thread. */
void mr_notice_reader(void);

#endif
