/* The two modes of the stage source: a server's whole stream, (source.c), or what a broadcast
   publishes (source_listen.c). */
#ifndef MR_LINKS_SOURCE_PRIVATE_H
#define MR_LINKS_SOURCE_PRIVATE_H

#include "links/link_stage.h"
#include "links/listen.h"

typedef struct source {
  mr_link_in_t in; /* first: link-in works on it */
  int64_t wait;
  const char *subscribe; /* NULL: a server's stream */
  mr_listen_t *listen;
  mr_listen_stats_t heard;
  void *names; /* heap, from plan to forget: the names in the spec of what comes */
} source_t;

/* Makes the spec of a link or listener the output's, with copies of its names, which the link does
   not outlive.  MR_OK; MR_ERR_NOMEM. */
mr_err_t mr__source_keep_spec(mr_stage_t *s, const mr_spec_t *spec);

mr_err_t mr__source_listen_plan(mr_stage_t *s);
mr_err_t mr__source_listen_open(mr_stage_t *s);
mr_err_t mr__source_listen_step(mr_stage_t *s);
void mr__source_listen_close(mr_stage_t *s);
void mr__source_listen_report(mr_stage_t *s, char *text, size_t n);

#endif
