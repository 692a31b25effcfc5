/* What the two ends of a link have in common as stages, and what the program asks of them. */
#ifndef MR_LINKS_LINK_STAGE_H
#define MR_LINKS_LINK_STAGE_H

#include "links/link.h"
#include "pipeline/stage.h"
#include "pipeline/stream_at.h"

typedef struct mr_link_settings {
  const char *link, *address, *key, *peers, *peer;
  bool bind;
  int64_t window, linger;
} mr_link_settings_t;

#define MR_LINK_TEXT(NAME, AT, HELP)                                                        \
  {                                                                                         \
    .name = #NAME, .type = MR_OPT_STR, .offset = (AT) + offsetof(mr_link_settings_t, NAME), \
    .unit = "", .help = HELP                                                                \
  }

/* The rows of settings, for an mr_link_settings_t at an offset of the state. */
#define MR_LINK_OPTS(AT)                                                                         \
  MR_LINK_TEXT(link, AT, "Name of the link, the same on both ends."),                            \
      MR_LINK_TEXT(address, AT, "tcp://HOST:PORT, ipc://@NAME or ipc://FILE."),                  \
      {.name = "bind",                                                                           \
       .type = MR_OPT_BOOL,                                                                      \
       .offset = (AT) + offsetof(mr_link_settings_t, bind),                                      \
       .unit = "",                                                                               \
       .def = "false",                                                                           \
       .help = "Listens at the address; the other end connects."},                               \
      MR_LINK_TEXT(key, AT, "File of this end's secret key, for links between hosts."),          \
      MR_LINK_TEXT(peers, AT,                                                                    \
                   "Public key files of the accepted or expected peers, separated by commas."),  \
      MR_LINK_TEXT(peer, AT, "Name of the process at the other end, for messages."),             \
      {.name = "window",                                                                         \
       .type = MR_OPT_INT,                                                                       \
       .offset = (AT) + offsetof(mr_link_settings_t, window),                                    \
       .unit = "buffers",                                                                        \
       .def = "8",                                                                               \
       .lo = 1,                                                                                  \
       .hi = MR_LINK_WINDOW_MAX,                                                                 \
       .help = "Most buffers in flight or in use at the receiving end."},                        \
  {                                                                                              \
    .name = "linger", .type = MR_OPT_INT, .offset = (AT) + offsetof(mr_link_settings_t, linger), \
    .unit = "ms", .def = "2000", .lo = 1, .hi = 86400000,                                        \
    .help = "How long this end waits for acknowledgements before it closes."                     \
  }

/* The name of the links of `millrace serve`. */
#define MR_SERVE_LINK "serve"

/* link-in, for stages that begin with its state. */
typedef struct mr_link_in {
  mr_link_settings_t set;
  mr_link_t *link;
  mr_link_stats_t told;
  int64_t opened_ns; /* 0: it has been said that nobody comes, or somebody has come */
  int64_t refused;   /* peers that people were told of */
} mr_link_in_t;
mr_err_t mr_link_in_open(mr_stage_t *s);
mr_err_t mr_link_in_step(mr_stage_t *s);
void mr_link_in_close(mr_stage_t *s);
void mr_link_in_report(mr_stage_t *s, char *text, size_t n);

mr_link_cfg_t mr_link_cfg(const mr_link_settings_t *t);

/* Tells people on standard error that a peer was refused, and why; *told: refusals that were known
   before.  Only the first few of a run: a stranger could fill a disk with them. */
void mr_link_tell_refusals(const mr_stage_t *s, const mr_link_t *link, int64_t *told);

/* Fails with what is missing; setting is what the address is called there. */
mr_err_t mr_link_settings_check(mr_stage_t *s, const mr_link_settings_t *t, const char *setting);

/* link-out, after join: true, and where, if the peer wants the stream to go on elsewhere.  The
   graph is then to be made again, with this stage's input there (mr_graph_go_on). */
bool mr_link_out_moved(const mr_stage_t *s, mr_stream_at_t *at);

/* link-out of a settled graph, before it starts: a peer that asks for this point is refused with
   why (copied), since the graph cannot be made there. */
void mr_link_out_refuse(const mr_stage_t *s, const mr_stream_at_t *at, const char *why);
/* After join: how many buffers it has sent. */
int64_t mr_link_out_sent(const mr_stage_t *s);

/* Every link-out of this program ends: whom it serves has done with its stream, or will not come.
   Any thread; also in a signal handler. */
void mr_link_out_nobody_comes(void);

/* link-out of a settled graph that does not run: waits until the peer has come, and says where it
   wants to go on; at stays as it was if nobody comes. */
mr_err_t mr_link_out_ask(const mr_stage_t *s, mr_stream_at_t *at, mr_diag_t *diag);

#endif
