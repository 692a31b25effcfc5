/* What a resume changes about its run: told, or refused where the run would become another one. */
#ifndef MR_APPS_RESUME_CHANGE_H
#define MR_APPS_RESUME_CHANGE_H

#include "apps/run_dir.h"

typedef struct mr_resume_news {
  char *facts;     /* the new text of data.txt; heap, the caller's */
  char said[2048]; /* lines for the user, one for each change; "": nothing has changed */
} mr_resume_news_t;

/* Compares a run as it was, r's settings [0,n_kept) and its data.txt, with what a resume makes of
   it: all of r's settings, and the data that are there now.  Changes of the records of the training
   stream, of seeds, of batches and of the model change what the ledger stands for: MR_ERR_USAGE,
   unless the run has not begun (it has no checkpoint) or allow, "data,seed,batch,model" or some of
   these words, names them (NULL: none).  Other changes, and allowed ones, are told in news.
   Settings that change no number, such as workers, are free, and so is the same data in another
   place.  Also a failure to make the graph of the new settings; news->facts is NULL then. */
mr_err_t mr_resume_check_changes(const mr_run_dir_t *r, int n_kept, bool begun, const char *allow,
                                 mr_resume_news_t *news, mr_diag_t *diag);

#endif
