/* Resuming: from a checkpoint (resume.c) or from the state that a ledger stage saved
   (from_state.c); what a resume changes in its run (resume_change.c), and whether the data are the
   same (data_facts.c). */
#ifndef MR_APPS_RUN_RESUME_H
#define MR_APPS_RUN_RESUME_H

#include <stdbool.h>

#include "apps/run/run_dir.h"
#include "pipeline/graph/graph.h"
#include "stages/train/state.h"

/* Sets up a resumed run: the checkpoint that stage `step` reads, and where the sinks and the
   streams before it resume.  g must not be settled.  Fails as mr_graph_set. */
mr_err_t mr_resume_set(mr_graph_t *g, const char *step, const char *path,
                       const mr_train_progress_t *at, mr_diag_t *diag);

/* The same with the progress read from the checkpoint into *at.  MR_ERR_IO or MR_ERR_DATA. */
mr_err_t mr_resume_from(mr_graph_t *g, const char *step, const char *path, mr_train_progress_t *at,
                        mr_diag_t *diag);

/* Returns whether path exists and was written at or after since (ns of the Unix clock).  A link is
   not followed. */
bool mr_resume_is_newer(const char *path, int64_t since);

/* The last checkpoint is older than the last report, so a resume repeats some steps.  Files are cut
   back to the checkpoint, but reports to a terminal, a scraper or a subscriber cannot be taken
   back: they show these steps as repeated ones.

   Sets resume-reported of every stage that has it to the last step in the files of the graph's
   jsonl and csv stages if that lies behind the checkpoint's, at->step, else to -1, and
   resume-images to the images of both.  Files not written since (ns of the Unix clock) are ignored.
   A process that is killed while it repeats steps has cut these files already, so FILE.reported
   beside each keeps the step until it has been passed; a notice says where it cannot be written.  g
   must not be settled, and the files not yet cut back.  Fails as mr_graph_set. */
mr_err_t mr_resume_reported(mr_graph_t *g, int64_t since, const mr_train_progress_t *at,
                            mr_diag_t *diag);

/* Returns whether the graph shows steps and has no stage that keeps which were reported. */
bool mr_resume_keeps_none(const mr_graph_t *g);

/* Says of such a graph what a resume after this step cannot show: once for all processes of the
   graph, where the last run of it may not have ended in order. */
void mr_resume_say_unkept(const mr_graph_t *g, int64_t step);

/* Removes these files, which another run of the same names has left: for a run that begins. */
void mr_resume_forget_reported(const mr_graph_t *g);

/* The changes that a resume makes to its run. */
typedef struct mr_resume_news {
  char *facts;     /* the new text of data.txt; heap, the caller's */
  char said[2048]; /* lines for the user, one per change; "": nothing has changed */
} mr_resume_news_t;

/* Compares the run as it was, its graph and settings and data.txt, with the resumed run: r's graph
   and settings and the data found now.  Changes to the training records, seeds, batches or the
   model invalidate the ledger: MR_ERR_USAGE, unless the run has no checkpoint yet (begun is false),
   or allow names them: some of the words "data,seed,batch,model"; NULL allows none.  Other changes,
   and allowed ones, are listed in news->said.  Settings that affect no number, such as workers, may
   change freely, as may the place of the same data.  Also fails if the graph of the new settings
   cannot be built; news->facts is NULL after any failure.  step: the last one that is done; where
   the next has another learning rate than it would have had, news->said has both. */
mr_err_t mr_resume_check_changes(const mr_run_dir_t *was, const mr_run_dir_t *r, bool begun,
                                 int64_t step, const char *allow, mr_resume_news_t *news,
                                 mr_diag_t *diag);

/* The identity of a run's data sets, independent of their place, as RUN/data.txt keeps it from the
   run's begin.  Returns a line "STAGE ORIGIN records=N classes=N sample=HASH" for each source of a
   settled graph that can tell where its records are; heap, the caller frees it.  NULL without
   memory.  The hash covers the sizes of the files and some bytes of them, of the records' files and
   of files that settings name, but no names of files or folders; and, behind MR_FACTS_OBJECTS, a
   digest of the objects of servers, with their names and states.  A file that cannot be read counts
   as empty; opening the stage reports it.  Main thread only. */
char *mr_data_facts(const mr_graph_t *g);
#define MR_FACTS_OBJECTS " objects="

/* Copies the line of a stage in such a text (facts may be NULL), without the stage's name, into
   line[0,n).  Returns false if the text has no such line. */
bool mr_data_facts_of(const char *facts, const char *stage, char *line, size_t n);

/* Sets the stage that makes batches to the earliest of the state files "A,B,...", and every ledger
   of g, or the one of this name alone, to resume after that step.  g must not be settled.
   MR_ERR_IO, MR_ERR_DATA for a file that is no state, MR_ERR_USAGE for a graph without batches,
   MR_ERR_NOMEM. */
mr_err_t mr_from_state(mr_graph_t *g, const char *files, const char *ledger, mr_diag_t *diag);

#endif
