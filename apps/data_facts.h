/* The identity of a run's data sets, independent of their place: RUN/data.txt, written when a run
   begins. */
#ifndef MR_APPS_DATA_FACTS_H
#define MR_APPS_DATA_FACTS_H

#include <stdbool.h>

#include "pipeline/graph.h"

/* Returns a line "STAGE ORIGIN records=N classes=N sample=HASH" for each source of a settled graph
   that can tell where its records are; heap, the caller frees it.  NULL without memory.  The hash
   covers the sizes of the files and some bytes of them, of the records' files and of files that
   settings name, but no names of files or folders.  A file that cannot be read counts as empty;
   opening the stage reports it.  Main thread only. */
char *mr_data_facts(const mr_graph_t *g);

/* Copies the line of a stage in such a text (facts may be NULL), without the stage's name, into
   line[0,n).  Returns false if the text has no such line. */
bool mr_data_facts_of(const char *facts, const char *stage, char *line, size_t n);

#endif
