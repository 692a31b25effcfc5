/* The changes that a resume makes to its run: reported, or refused if it would become another
   run. */
#ifndef MR_APPS_RESUME_CHANGE_H
#define MR_APPS_RESUME_CHANGE_H

#include "apps/run_dir.h"

typedef struct mr_resume_news {
  char *facts;     /* the new text of data.txt; heap, the caller's */
  char said[2048]; /* lines for the user, one per change; "": nothing has changed */
} mr_resume_news_t;

/* Compares the run as it was, r's settings [0,n_kept) and its data.txt, with the resumed run: all
   of r's settings and the data found now.  Changes to the training records, seeds, batches or the
   model invalidate the ledger: MR_ERR_USAGE, unless the run has no checkpoint yet (begun is false),
   or allow names them: some of the words "data,seed,batch,model"; NULL allows none.  Other changes,
   and allowed ones, are listed in news->said.  Settings that affect no number, such as workers, may
   change freely, as may the place of the same data.  Also fails if the graph of the new settings
   cannot be built; news->facts is NULL after any failure. */
mr_err_t mr_resume_check_changes(const mr_run_dir_t *r, int n_kept, bool begun, const char *allow,
                                 mr_resume_news_t *news, mr_diag_t *diag);

#endif
