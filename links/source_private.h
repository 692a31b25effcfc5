/* The two modes of the stage source: a server's whole stream, (source.c), or what a broadcast
   publishes (source_listen.c). */
#ifndef MR_LINKS_SOURCE_PRIVATE_H
#define MR_LINKS_SOURCE_PRIVATE_H

#include "links/link_stage.h"
#include "links/listen.h"

enum { MR__SOURCE_CLASSES = 1024, MR__SOURCE_NAMES = 32 << 10 };

typedef struct source {
  mr_link_in_t in; /* first: link-in works on it */
  int64_t wait;
  const char *subscribe; /* NULL: a server's stream */
  mr_listen_t *listen;
  mr_listen_stats_t heard;
  mr_dataset_t dataset;
  const char *class_name[MR__SOURCE_CLASSES];
  char names[MR__SOURCE_NAMES];
} source_t;

/* Copies the dataset's strings into t, so that they outlive the link. */
void mr__source_keep_dataset(source_t *t, mr_spec_t *spec);

mr_err_t mr__source_listen_plan(mr_stage_t *s);
mr_err_t mr__source_listen_open(mr_stage_t *s);
mr_err_t mr__source_listen_step(mr_stage_t *s);
void mr__source_listen_close(mr_stage_t *s);
void mr__source_listen_report(mr_stage_t *s, char *text, size_t n);

#endif
