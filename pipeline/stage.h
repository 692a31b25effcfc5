/* A stage: one constant, one file, one line in its folder's list.def.

   The constant holds what every stage has, and points to the members of its kind.  A header for
   each kind describes these members with their calls:

   | kind   | runs                                                        | header         |
   | ------ | ----------------------------------------------------------- | -------------- |
   | source | fetches records by index                                    | stage_source.h |
   | order  | maps a position to one of an input: shuffle, slice, mix     | stage_order.h  |
   | map    | makes one record of one record                              | stage_map.h    |
   | filter | decides which records stay                                  | stage_filter.h |
   | join   | makes one record of several: zip                            | stage_join.h   |
   | walk   | gives records one after the other: interleave               | stage_walk.h   |
   | step   | works on buffers in threads of its own: batch, sinks        | stage_step.h   |

   All but step are stages of a *record stream* and have no thread.  They form a tree that ends in a
   step stage (batch), which runs it (pipeline/records/chain.h).  A stage is of one kind; only an
   order may also be a walk.

   A record stream is *indexable* (grain's MapDataset): a function of any position >= 0, of which an
   epoch has n_records; some positions may be holes.  Or it is *sequential* (grain's IterDataset): a
   walk with a few numbers as its state.  Filters, maps and joins of sequential streams are
   sequential; a stage that is both an order and a walk (mix) is what its inputs are. */
#ifndef MR_PIPELINE_STAGE_H
#define MR_PIPELINE_STAGE_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"
#include "base/metric.h"
#include "base/philox.h"
#include "pipeline/buffer.h"
#include "pipeline/opt.h"
#include "pipeline/spec.h"

MR_BEGIN_DECLS

enum {
  MR_BURST = 32,
  MR_MAX_PORTS = 8,     /* inputs, or outputs, that a definition describes */
  MR_INPUTS_MAX = 4096, /* inputs of one stage, with those behind the described (.more) */
  MR_MAX_READERS = 256  /* readers of one source */
};

typedef struct mr_stage mr_stage_t;

/* The value of one field of a record. */
typedef struct mr_value {
  void *data;   /* row-major; aligned for its dtype */
  int64_t rows; /* ragged: rows of the first dimension, in [0,dim[0] of the field]; else unused */
} mr_value_t;

/* One record on its way through a chain. */
typedef struct mr_rec {
  mr_value_t *field; /* [n_fields], as the spec of the input or output says */
  uint64_t key;      /* record id within the source */
  uint64_t draw;     /* hash of the draws so far: mr_draw_note */
  mr_philox_t *rng;  /* the record's own generator; NULL without a seed */
  struct mr_draws
      *draws;   /* where draws are noted in words (pipeline/records/lineage.h); NULL: not noted */
  bool skipped; /* skip-records= excludes it: mr_buf_t.excluded */
} mr_rec_t;

typedef struct mr_port_def {
  const char *name;
  mr_flow_t flow; /* MR_FLOW_NONE: any */
  bool optional;  /* may stay unconnected */
  bool lossy;     /* input: when its ring is full the oldest buffers are dropped, so that the stage
                     upstream never waits for this one.  For observers */
  bool leaves;    /* input: buffers go to other processes, so they are best made in memory that
                     those can map */
  bool device; /* input: may take batches whose values lie on a device (mr_spec_t.device); output:
                  gives such */
  bool family; /* input, optional: one of several whose names begin alike and that a graph names:
                  its name is "valid.*", and a graph links to "valid.dogs": NAME of
                  [A-Za-z0-9_-], at most MR_IN_NAME_MAX characters in all */
  bool alike;  /* input: one of several that take the same and begin at the first; a link that names
                  no input takes the first of them that has none yet */
  bool more;   /* input, alike, the last one described: a graph may link inputs behind it, up to
                  MR_INPUTS_MAX in all, which are as this one and optional.  Their names continue
                  the alphabet (mr_input_letters) */
} mr_port_def_t;

enum { MR_SETTINGS_MAX = 128 }; /* settings of a stage */
enum { MR_IN_NAME_MAX = 63 };   /* characters of the name that a graph gives an input */

/* The members of each kind: pipeline/stage_KIND.h. */
typedef struct mr_source_def mr_source_def_t;
typedef struct mr_order_def mr_order_def_t;
typedef struct mr_map_def mr_map_def_t;
typedef struct mr_filter_def mr_filter_def_t;
typedef struct mr_join_def mr_join_def_t;
typedef struct mr_walk_def mr_walk_def_t;
typedef struct mr_step_def mr_step_def_t;

/* What a stage is to the program that runs it, where its kind does not say so.  Programs and the
   pipeline find stages by role (mr_registry_role, mr_graph_stage_with) and never by name, so that a
   plug-in's stage can take the place of one of ours.  mr_stage_def_check refuses a role without the
   settings and ports that it needs, named in parentheses; the settings mean what those of the
   program's own stage of the role mean. */
typedef enum mr_role {
  MR_ROLE_NONE,
  MR_ROLE_CLASSES,    /* source of labelled pictures that a program's data= names (path) */
  MR_ROLE_SYNTHETIC,  /* source that replaces that one where no files are */
  MR_ROLE_SEEDS,      /* gives each record a generator (seed) */
  MR_ROLE_SIZES,      /* makes pictures of one size (size) */
  MR_ROLE_BATCH,      /* makes batches of records (size) */
  MR_ROLE_GATHER,     /* joins slices of batches (size) */
  MR_ROLE_STEP,       /* trains on batches */
  MR_ROLE_CHECKPOINT, /* keeps states: DIR/latest is the newest, which mr_train_state_progress
                         reads, and the stage commits what is in it (dir; an input of states) */
  MR_ROLE_LEDGER,     /* keeps what batches hold, and the state of their stream (state,
                         resume-step, resume-ledger) */
  MR_ROLE_LINES,      /* keeps metrics as lines of JSON (path) */
  MR_ROLE_PUBLISH,    /* gives metrics to subscribers */
  MR_ROLE_DISCARD,    /* takes anything and keeps nothing; no output */
  MR_ROLE_LINK_OUT,   /* sends buffers to another process: `outside` (link, address, bind, key,
                         peers, peer, window) */
  MR_ROLE_LINK_IN,    /* receives them there; the same settings.  A plug-in brings both ends */
  MR_ROLES
} mr_role_t;

/* What a stage takes of memory besides buffers. */
typedef struct mr_takes {
  size_t bytes;
  const char *advice; /* what to do where that is too much, as a clause; NULL: none */
} mr_takes_t;

typedef struct mr_stage_def {
  const char *name;  /* names the stage in graph files, logs and metrics */
  const char *help;  /* one sentence, ends with a period */
  const char *needs; /* optional libraries (base/feature.h) without which the rest of this row is
                        empty and a graph that names the stage is refused; NULL: none */
  mr_port_def_t in[MR_MAX_PORTS], out[MR_MAX_PORTS]; /* end at a NULL name */
  const mr_opt_t *opts;                              /* ends at {0}; NULL: none */
  const mr_metric_def_t *metrics; /* what the stage reports with mr_metric_report; ends at a NULL
                                     name, their roles are MR_METRIC_STAGE; NULL: nothing */
  size_t state_sz;                /* bytes, zeroed, then filled with the settings before plan */

  /* Settles the output specs (s->out_spec[i]) from the input specs (s->in_spec[i]); allocates
     nothing outside the state but what forget gives back.  MR_OK, or a failure by mr_stage_fail,
     most often MR_ERR_SHAPE or MR_ERR_CONFIG.  May run more than once. */
  mr_err_t (*plan)(mr_stage_t *s);
  /* Gives back what plan has taken outside the state; runs once after each plan, also a failed one,
     before the state is settled again or freed.  NULL: plan takes nothing. */
  void (*forget)(mr_stage_t *s);
  mr_err_t (*open)(mr_stage_t *s); /* takes memory, files, devices; NULL: takes none */
  void (*close)(mr_stage_t *s);    /* gives back; runs after open, also if open failed */

  /* After plan: sets what the stage will take from open on besides the buffers of its outputs, as
     far as its settings and inputs say (pipeline/run/memory.h).  models: also what it has to plan a
     model for, which may take a second.  MR_OK, or a failure by mr_stage_fail.  NULL: little, or it
     takes only what is free. */
  mr_err_t (*memory)(mr_stage_t *s, bool models, mr_takes_t *out);

  /* One of these, or order and walk (mr_stage_def_check).  They live as long as the constant. */
  const mr_source_def_t *source;
  const mr_order_def_t *order;
  const mr_map_def_t *map;
  const mr_filter_def_t *filter;
  const mr_join_def_t *join;
  const mr_walk_def_t *walk;
  const mr_step_def_t *step;

  /* A family of stages that one setting, `chosen_by`, tells apart (train-step model=mlp).  choose
     returns the definition for a value of it, or for NULL if it is not given: static, of the same
     name and ports; or NULL for an unknown value, with a hint what to write instead in hint[0,n),
     or "". Every definition has the setting. */
  const char *chosen_by;
  const struct mr_stage_def *(*choose)(const char *value, char *hint, size_t n);

  /* After close: a failure makes a run fail that succeeded otherwise.  NULL: never. */
  mr_err_t (*verdict)(mr_stage_t *s);

  /* After close, with the state still there: one line about the run into text[0,n), or "" for no
     line.  NULL: no line. */
  void (*report)(mr_stage_t *s, char *text, size_t n);

  mr_role_t role;
  const char *alias;     /* other names of it that graphs may use, such as former ones, separated by
                            blanks; NULL: none */
  const mr_hint_t *hint; /* other frameworks' words for it; `write` is a piece of graph text;
                            NULL: none */
  const mr_hint_t *setting_hint; /* other frameworks' settings that belong to this stage but are no
                                    other word for one of its settings; NULL: none */
} mr_stage_def_t;

/* MR_OK, or MR_ERR_CONFIG with a sentence that names the stage and the member at fault: a
   definition without a name or a kind, of kinds that exclude each other, without the function of
   its kind, with ports that its kind cannot have, with a setting outside its state, or with a
   metric whose name is reserved (mr_metric_check) or occurs twice.  diag may be NULL. */
mr_err_t mr_stage_def_check(const mr_stage_def_t *def, mr_diag_t *diag);

/* Labels of an order's inputs that its output numbers otherwise: number[p][f][c], c in [0,n[p][f]),
   is the class in the output that input p calls c in field f.  NULL: that field of that input stays
   as it is.  A renumbered field has its bit in mr_stage_t.writes. */
typedef struct mr_renumber {
  const int32_t *(*number)[MR_FIELDS_MAX]; /* [inputs] */
  int (*n)[MR_FIELDS_MAX];                 /* [inputs] */
} mr_renumber_t;

/* A planned or running stage; with workers=N one mr_stage_t for each worker, state shared. */
struct mr_stage {
  const mr_stage_def_t *def;
  const char *name;      /* unique in the graph: name=..., or def->name plus a number */
  void *state;           /* def->state_sz bytes */
  int worker, n_workers; /* worker in [0,n_workers) */
  int n_in, n_out;       /* ports: those of the definition, and inputs linked behind them */
  /* The ports, the same memory for all workers; the graph owns it, and the names in it. */
  mr_spec_t *in_spec, *out_spec; /* [n_in], [n_out]; at least one of each, zeros without a port */
  bool *in_linked, *out_linked;  /* [n_in], [n_out] */
  const char **in_name;          /* [n_in] of the linked inputs: the definition's, or as the graph
                                    calls it; NULL: not linked */
  const char **in_from;          /* [n_in] the stages that lead to them; NULL: not linked */
  mr_diag_t *diag;               /* where this stage's thread reports failures: mr_stage_fail; NULL
                                    in a source's fetch whose bad records need no sentence */
  int64_t start_position;        /* where a resumed stream continues; set before open, else 0 */
  int64_t start_number;      /* number of the first buffer it gives, from 0; without a position the
                                stage seeks there itself */
  int64_t start_record;      /* above 0: the first buffer begins at this record of the stream of
                                batches, from 0, instead; records of empty batches do not count */
  const int64_t *start_word; /* [n_start_words] mr_buf_t.word there; NULL: unknown */
  int n_start_words;
  uint64_t given[MR_SETTINGS_MAX / 64]; /* bit i % 64 of number i / 64: setting i of def->opts was
                                           given, not left to its default */
  bool elsewhere;        /* another process of the graph runs it: it is planned for its specs alone,
                            and keeps nothing after plan that only one process may have */
  bool has_default_seed; /* the pipeline has a seed, from which default_seed */
  uint32_t default_seed; /* follows as in grain */
  int64_t holds;         /* plan may set it: buffers that a worker keeps while it waits for more, 0
                            counts as 1; pools grow by that number */
  uint16_t
      writes; /* source, map, join: plan may set it, bit f: fetch or run writes the value of field f
                 of output 0 into room that it is given (stage_source.h, stage_map.h) */
  uint32_t from[MR_FIELDS_MAX];  /* map, join: set by mr_field_from */
  const mr_renumber_t *renumber; /* order, walk: plan may set it, from the stage's state: how labels
                                    of its inputs become those of its output; NULL: unchanged */
  uint16_t reads;       /* filter: plan may set it, bit f: keep reads field f (stage_filter.h) */
  size_t scratch_bytes; /* map: plan may set it: bytes of scratch */
  void *scratch;        /* each worker's own, 64-aligned, zeros before its first call; NULL if
                           scratch_bytes is 0 */
  int waits;            /* mr_waits_t: the stage may set it before mr_wait_fds */
  int64_t base_seed;    /* plan may set it (else -1): stages downstream derive their seeds from
                           it */
  const struct mr_registry *registry; /* of its graph, for sentences that name other stages */
  mr_atomic_i64_t *reported;          /* [metrics of def] newest values, mr_metric_report */
  struct mr_runtime *rt;              /* the scheduler's side */
};

/* The name of input i, from 0, among those that are called by letters: a to z, aa, ab, ... into
   text[0,MR_INPUT_LETTERS), which it returns; i in [0,MR_INPUTS_MAX). */
enum { MR_INPUT_LETTERS = 4 };
const char *mr_input_letters(int i, char *text);

/* True if the graph sets the setting at this offset of the state; false for a default. */
bool mr_setting_given(const mr_stage_t *s, size_t offset);

/* Reports the newest value of metric i of def->metrics, i in [0, how many it has): the records of
   the run then have it as a number of this stage, STAGE.NAME in tables, from the next record on.  A
   value that is not finite is shown as such.  mr_metric_count adds n to the value, which begins at
   0, for metrics that are totals.  From open on, any thread; never blocks. */
void mr_metric_report(mr_stage_t *s, int i, double value);
void mr_metric_count(mr_stage_t *s, int i, int64_t n);

/* In plan of a stage with a setting `field`: the index of the field of input 0 that it works on,
   the one called name or, if name is NULL, the only one that fits.  MR_ERR_SHAPE (< 0) with a
   sentence if the field is missing or does not fit, or if several do.  wants: what fits, "u8
   pictures in CHW or HWC". */
typedef bool mr_field_fits_fn(const mr_field_t *f);
int mr_field_choose(mr_stage_t *s, const char *name, mr_field_fits_fn *fits, const char *wants);

/* Fail with "STAGE: sentence" in s->diag: with this one, with that of a call that failed with e
   (mr_diag_relay; nothing if e >= 0), for want of memory (mr_no_memory).  They return code, e and
   MR_ERR_NOMEM. */
mr_err_t mr_stage_fail(mr_stage_t *s, mr_err_t code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
mr_err_t mr_stage_relay(mr_stage_t *s, mr_err_t e, const mr_diag_t *from);
mr_err_t mr_stage_no_memory(mr_stage_t *s, const char *what, ...)
    __attribute__((format(printf, 2, 3)));

/* What a call takes whose failure mr_stage_relay is to report: *why, emptied; NULL where s reports
   none, so that no sentence is made in vain. */
static inline mr_diag_t *mr_stage_why(const mr_stage_t *s, mr_diag_t *why) {
  why->code = MR_OK, why->text[0] = 0;
  return s->diag ? why : NULL;
}

MR_END_DECLS

#endif
