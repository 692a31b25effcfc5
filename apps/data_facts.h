/* What tells a data set from another, wherever it lies: RUN/data.txt, written when a run begins. */
#ifndef MR_APPS_DATA_FACTS_H
#define MR_APPS_DATA_FACTS_H

#include <stdbool.h>

#include "pipeline/graph.h"

/* A line "STAGE ORIGIN records=N classes=N sample=HASH" for each source of a settled graph that can
   tell where its records are; heap, the caller frees it; NULL when memory is short.  The hash is
   of the sizes of the files and of some bytes of them, records and files of settings alike; names
   of folders and files are no part of it.  A file that cannot be read counts as empty: opening the
   stage says so. */
char *mr_data_facts(const mr_graph_t *g);

/* The line of a stage in such a text, without the stage's name, into line[0,n); false: there is
   none. */
bool mr_data_facts_of(const char *facts, const char *stage, char *line, size_t n);

#endif
