/* What the two ends of a link have in common as stages, and the program's calls on them: those on
   the sending end are in link_out.c, on the receiving end in link_in.c, the rest in link_stage.c.
 */
#ifndef MR_LINKS_LINK_STAGE_H
#define MR_LINKS_LINK_STAGE_H

#include "links/link.h"
#include "pipeline/graph/stream_at.h"
#include "pipeline/stage.h"

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

/* The rows of settings for an mr_link_settings_t at an offset of the state. */
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

/* The sending end, for programs whose peers are stages `source`. */
extern const mr_stage_def_t mr_stage_link_out;

/* The name of the links of `millrace serve`. */
#define MR_SERVE_LINK "serve"

/* link-in's state, for stages whose state begins with it. */
typedef struct mr_link_in {
  mr_link_settings_t set;
  mr_link_t *link;
  mr_link_stats_t reported;
  int64_t opened_ns; /* 0: a peer has come, or its absence was reported */
  int64_t refused;   /* refusals reported so far */
} mr_link_in_t;
/* Members of link-in's definition.  open returns MR_OK or fails by mr_stage_fail; step returns
   MR_OK, MR_END or a failure. */
mr_err_t mr_link_in_open(mr_stage_t *s);
mr_err_t mr_link_in_step(mr_stage_t *s);
void mr_link_in_close(mr_stage_t *s);
void mr_link_in_report(mr_stage_t *s, char *text, size_t n);

/* The link's configuration from the settings.  Cannot fail; its strings are those of *t. */
mr_link_cfg_t mr_link_cfg(const mr_link_settings_t *t);

/* Reports on standard error that a peer was refused, and why; *reported: refusals already reported.
   Only the first few of a run are reported: a stranger could fill a disk with them. */
void mr_link_report_refusals(const mr_stage_t *s, const mr_link_t *link, int64_t *reported);

/* Checks link and address: MR_OK, or MR_ERR_CONFIG with a sentence.  setting: the name of the
   address setting there. */
mr_err_t mr_link_settings_check(mr_stage_t *s, const mr_link_settings_t *t, const char *setting);

/* link-out, after join: true, with the point in *at, if the peer wants the stream to resume
   elsewhere.  The graph must then be rebuilt with this stage's input at that point
   (mr_graph_resume).  False otherwise, also for a stage that never settled. */
bool mr_link_out_moved(const mr_stage_t *s, mr_stream_at_t *at);

/* link-out of a settled graph, before it starts: refuses a peer that asks for this point, with why
   (copied, up to 255 bytes), because the graph cannot be built there. */
void mr_link_out_refuse(const mr_stage_t *s, const mr_stream_at_t *at, const char *why);
/* After join: whether its peer has left: it has finished, or wants no more.  False for a stage that
   never settled. */
bool mr_link_out_left(const mr_stage_t *s);
/* link-out of a settled graph, before it starts: its peer has left an earlier graph of this
   program.  A peer that comes all the same is served, but the stage ends as soon as every other
   link-out of the program has. */
void mr_link_out_set_left(const mr_stage_t *s);
/* After join: how many buffers it has sent; 0 for a stage that never settled. */
int64_t mr_link_out_sent(const mr_stage_t *s);

/* link-out of a settled graph that does not run: blocks until the peer has come, and sets *at to
   the point it wants to resume from.  MR_OK, with *at unchanged if the peer left the graph before,
   if none comes within three seconds (one that comes later and wants another point makes the graph
   move again), and after mr_link_end_end_all; or the failure of mr_link_open_out or
   mr_link_pump.  The sentence is in diag. */
mr_err_t mr_link_out_ask(const mr_stage_t *s, mr_stream_at_t *at, mr_diag_t *diag);

#endif
