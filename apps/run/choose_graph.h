/* The graph that `millrace train PATH` chooses for data: from what a source says of its records,
   and a look at some of them.  Main thread only. */
#ifndef MR_APPS_RUN_CHOOSE_GRAPH_H
#define MR_APPS_RUN_CHOOSE_GRAPH_H

#include <stdbool.h>

#include "apps/run/recognise.h"
#include "pipeline/spec.h"

/* What was seen of the records of a source. */
typedef struct mr_seen {
  mr_spec_t spec;    /* of the source, without names of classes */
  int image, label;  /* fields; -1: none is known */
  bool encoded;      /* the image is the bytes of a picture file */
  int side;          /* of encoded pictures: the median of the shorter sides, in pixels */
  int64_t n_classes; /* of the label; 0: none */
  bool counted;      /* by its largest value: the source does not say it */
  char classes[512]; /* the first names of them, "ant, bee"; "": they have none */
} mr_records_seen_t;

/* Writes those of word[0,n), NAME=VALUE, that are settings of a kind's stage into text[0,size) as
   graph text, and sets taken[i].  MR_ERR_USAGE for a value that graph text cannot hold. */
mr_err_t mr_source_settings(mr_kind_t kind, const char *const *word, int n, bool *taken, char *text,
                            size_t size, mr_diag_t *diag);

/* Looks at 64 records from all places of the source, and at all labels if the source does not say
   how many classes there are and its records are few.  settings: more settings of the source, ""
   for none.  Reads; blocks.  Failures of the source; MR_ERR_USAGE asks for classes=. */
mr_err_t mr_see(const mr_found_t *f, const char *settings, mr_records_seen_t *out, mr_diag_t *diag);

/* Writes the graph for path, where f was found, into *text (heap, the caller's).  word[0,n) are
   NAME=VALUE; those that are settings of the source become part of the graph, and taken[i] is set.
   MR_ERR_USAGE names the setting that is needed where data do not say what to learn; failures of
   mr_see. */
mr_err_t mr_choose_graph(const char *path, const mr_found_t *f, const char *const *word, int n,
                         bool *taken, char **text, mr_diag_t *diag);

#endif
