/* The stream graph: stages and the edges between them, from text or from calls.

   Life: create -> (parse | add, set, link) -> (override, swap) -> settle -> run -> destroy.  One
   thread builds; mr_graph_stop, mr_graph_cancel and the statistics may be called from any.

   A call that returns mr_err_t gives MR_OK or fails with a sentence in diag (which may be NULL).
   The calls that build fail with MR_ERR_USAGE once the graph is settled, and with MR_ERR_NOMEM.

   Implemented here in graph.c (building), override.c (variables, overrides, dump), only.c (parts of
   a graph), stream_at.c (where streams begin) and dot.c; by the parts above in text/ (parsing),
   run/ (settling, running) and watch/ (statistics, timelines). */
#ifndef MR_PIPELINE_GRAPH_GRAPH_H
#define MR_PIPELINE_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"
#include "pipeline/graph/stream_at.h"
#include "pipeline/registry.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

typedef struct mr_graph mr_graph_t;

enum { MR_MAX_WORKERS = 64, MR_PROCESSES_MAX = 256 /* of a graph, each copy counted */ };

/* An empty graph over the stages of reg, which must outlive it; the caller destroys it.  NULL
   without memory. */
mr_graph_t *mr_graph_create(const mr_registry_t *reg);
/* Cancels and joins a graph that runs; NULL is fine.  In a child of the process that runs it, it
   does nothing: what the graph has stays as it was at the fork. */
void mr_graph_destroy(mr_graph_t *g);

/* ---- building by calls; names are copied ---- */

/* Adds stage def.  name NULL: def's own name, with a number from the second on.  given, unless
   NULL, gets the stage's name, owned by the graph.  MR_ERR_USAGE: the stage is unknown or the name
   is taken; MR_ERR_UNAVAILABLE: the stage needs a library that this build lacks. */
mr_err_t mr_graph_add(mr_graph_t *g, const char *def, const char *name, const char **given,
                      mr_diag_t *diag);

/* The same for a stage outside the registry, such as a program's own; it fails in the same ways.
   def must outlive the graph. */
mr_err_t mr_graph_add_def(mr_graph_t *g, const mr_stage_def_t *def, const char *name,
                          const char **given, mr_diag_t *diag);

/* Sets a setting from its text; the last call wins.  MR_ERR_USAGE: no such stage; MR_ERR_CONFIG: no
   such setting, or no such member of a family.  Other values are checked when the graph settles. */
mr_err_t mr_graph_set(mr_graph_t *g, const char *stage, const char *setting, const char *value,
                      mr_diag_t *diag);

/* Links an output port to an input port; a NULL port is the first one, or the first without a
   link of inputs that are alike (mr_port_def_t).  One output port may feed several inputs (an
   implicit tee).  MR_ERR_USAGE: no such stage or port.  A second link into one
   input is refused when the graph settles. */
mr_err_t mr_graph_link(mr_graph_t *g, const char *from, const char *out_port, const char *to,
                       const char *in_port, mr_diag_t *diag);

/* ---- the text form ----

     let batch = 128                                  # a variable, at the start of a line
     cifar10 path="my data" ! shuffle seed=12 ! batch $batch drop-remainder ! vit-step name=train
     train. ! progress      train.state ! checkpoint      cifar10 name=v ! batch 256 ! train.valid

   stage name=value word ! stage ... are chains; whitespace and newlines may separate any two words;
   a chain ends where a stage or a reference follows without "!". A bare word is a yes-or-no setting
   or the stage's positional value.  "x." continues from the first output port of stage x, "x.port"
   from a named one, wherever the text defines x; at the end of a chain they lead into x, "x." into
   its first input or, of inputs that are alike (those of mix), the first that has none yet.  Quotes
   "" and '' keep spaces; $NAME or ${NAME} in a value is replaced, $$ is a dollar; # starts a
   comment.  process NAME name=value ... { ... } at the start of a line says in which process the
   stages of its chains run (pipeline/graph/process.h).  plugin FILE at the start of a line, before
   the stages that it brings, loads a plug-in (mr_graph_on_plugin). */

/* Loads the plug-in `file` into the registry of the graph.  origin: that of the graph's text
   (mr_graph_set_origin), or NULL.  Returns MR_OK, or a failure whose sentence in diag names no
   place in the text. */
typedef mr_err_t mr_plugin_fn(void *ctx, const char *origin, const char *file, mr_diag_t *diag);

/* Sets what "plugin FILE" in the text does; before parse.  A plug-in is code, and text may come
   from anywhere: without this call such text is refused with MR_ERR_UNAVAILABLE. */
void mr_graph_on_plugin(mr_graph_t *g, mr_plugin_fn *load, void *ctx);

/* Makes what stages wait for outside the process end while *outer is not 0, as where the graph is
   stopped, already while it is settled and its stages are opened: those calls then fail with
   MR_ERR_CANCEL.  Any thread sets it; it outlives g.  NULL: nothing does.  Before settle. */
void mr_graph_ends_with(mr_graph_t *g, const mr_atomic_int_t *outer);

/* May put into g the stages that know the setting `name` (SETTING or STAGE.SETTING), which nothing
   in g has.  Returns MR_OK, also if it has added nothing, or a failure. */
typedef mr_err_t mr_missing_fn(mr_graph_t *g, const char *name, mr_diag_t *diag);

/* Sets what an override does whose name is missing, before it is refused; before parse.  For
   stages that a program inserts itself, whose settings can then be overridden too. */
void mr_graph_on_missing(mr_graph_t *g, mr_missing_fn *add);

/* Adds what text says, then applies overrides[0,n) (mr_graph_override).  A sentence about the text
   begins "ORIGIN:LINE:COLUMN: " (after mr_graph_set_origin; else "LINE:COLUMN: "), one about an
   override names the override; of two for one setting the later wins.  MR_ERR_USAGE: grammar,
   names, ports; MR_ERR_CONFIG: settings;
   MR_ERR_UNAVAILABLE: a stage's library, plug-ins.  After a failure the graph may only be
   destroyed. */
mr_err_t mr_graph_parse(mr_graph_t *g, const char *text, const char *const *overrides, int n,
                        mr_diag_t *diag);

/* Applies "NAME=VALUE", before settle.  NAME is a variable of the text, STAGE.SETTING, or a setting
   that exactly one stage has.  MR_ERR_USAGE: no "=", no such stage; MR_ERR_CONFIG: no such setting,
   or several stages have it (the sentence lists them). */
mr_err_t mr_graph_override(mr_graph_t *g, const char *name_value, mr_diag_t *diag);

/* The name by which an override of this graph sets what `word` means: word itself, if it is a
   variable or a setting of a stage, or the one that another framework calls so ("batch_size" is
   "batch", if a variable gives the batches their size).  Into the caller's name[0,n); false, and
   "", if nothing is known by that word. */
bool mr_graph_name_for(const mr_graph_t *g, const char *word, char *name, size_t n);

/* For overrides[0,n) that have been applied and come from one command line: MR_ERR_USAGE if two of
   them set the same setting or variable, in whatever spelling (lr=1 train.lr=2). */
mr_err_t mr_graph_overrides_once(const mr_graph_t *g, const char *const *name_value, int n,
                                 mr_diag_t *diag);

/* Puts a new stage of this def on the link into an input port of a stage, in the process of that
   stage.  given gets its name, owned by the graph.  MR_ERR_USAGE: no such stage, def or link;
   MR_ERR_UNAVAILABLE as mr_graph_add. */
mr_err_t mr_graph_insert(mr_graph_t *g, const char *def, const char *stage, int in_port,
                         const char **given, mr_diag_t *diag);

/* Replaces every stage of def `from` by one of def `to`; links stay, and so do the settings that
   both know.  MR_OK also when the graph has no such stage; a stage with its own name= keeps it.
   MR_ERR_USAGE: `to` is unknown. */
mr_err_t mr_graph_swap(mr_graph_t *g, const char *from, const char *to, mr_diag_t *diag);

/* Drops every stage that is not upstream of this one, so that its stream can be read alone.
   Pointers to the remaining stages and their names stay valid.  MR_ERR_USAGE: no such stage. */
mr_err_t mr_graph_only(mr_graph_t *g, const char *stage, mr_diag_t *diag);

/* Drops every stage but this one and those upstream of its input in_port, and the links into its
   other inputs.  As mr_graph_only otherwise.  MR_ERR_USAGE: no such stage, or nothing leads into
   that input. */
mr_err_t mr_graph_only_input(mr_graph_t *g, const char *stage, int in_port, mr_diag_t *diag);

/* How many links lead out of a stage, of all its outputs; 0 without such a stage.  Before settle
   too. */
int mr_graph_n_readers(const mr_graph_t *g, const char *stage);

/* Writes the graph in canonical form (one stage or link a line, given settings, variables
   replaced): two graphs are the same if their dumps are. */
void mr_graph_dump(const mr_graph_t *g, FILE *out);

/* ---- settling and running ---- */

/* Sets the buffers that each ring of an edge holds, a power of two in [2,1024], else MR_ERR_CONFIG.
   Default: 4, and for small buffers up to 256 so that bursts pay. */
mr_err_t mr_graph_set_depth(mr_graph_t *g, int depth, mr_diag_t *diag);

/* Sets the most buffers that the pool of any stage has, in [1,65536], else MR_ERR_CONFIG: less
   memory for less overlap.  Default: as many as the rings hold.  settle refuses a pool that could
   bring the graph to a standstill. */
mr_err_t mr_graph_set_pool(mr_graph_t *g, int most, mr_diag_t *diag);

/* Resumes the stream of batches that a stage gives at *at (copied): sets the start of each stage
   from this one upstream to the one that makes batches of records.  A stream with words is found at
   once.  MR_ERR_USAGE: no such stage; MR_ERR_CONFIG: a number outside [0,2^62); MR_ERR_DATA: the
   state of another graph.  After the links are made, before run. */
mr_err_t mr_graph_resume(mr_graph_t *g, const char *stage, const mr_stream_at_t *at,
                         mr_diag_t *diag);

/* The same from parts: a position alone (a stream that has words then walks its records from the
   start, and reads those that filters inspect), or with word[0,n), which is copied.  MR_ERR_DATA
   also if n is out of range. */
mr_err_t mr_graph_start_at(mr_graph_t *g, const char *stage, int64_t position, mr_diag_t *diag);
mr_err_t mr_graph_start_words(mr_graph_t *g, const char *stage, int64_t position,
                              const int64_t *word, int n, mr_diag_t *diag);

/* Sets the number, from 0, of the first buffer that a stage gives.  With a position it only numbers
   that buffer.  Alone it says where the stream begins: at once where batches are a function of
   their number, else by skipping records without making them (mr_walk_pass).  MR_ERR_USAGE: no such
   stage; MR_ERR_CONFIG: a number outside [0,2^62). */
mr_err_t mr_graph_start_number(mr_graph_t *g, const char *stage, int64_t number, mr_diag_t *diag);

/* As mr_graph_resume, to before buffer `number`, from 0.  *found: the state follows from the number
   alone; if false, MR_OK is returned and nothing has changed.  After settle, before run. */
mr_err_t mr_graph_seek(mr_graph_t *g, const char *stage, int64_t number, bool *found,
                       mr_diag_t *diag);

/* Sets the origin of the text, a file's name (copied): parse and settle put it before LINE:COLUMN.
   MR_ERR_NOMEM. */
mr_err_t mr_graph_set_origin(mr_graph_t *g, const char *origin, mr_diag_t *diag);

/* Checks ports and cycles, parses settings, plans every stage, settles the spec of every edge;
   refuses what could come to a standstill (a stage whose inputs wait for one another, a pool that
   is too small).  MR_OK at once if it is settled already.  Starts no thread and takes no memory for
   buffers.  Some plans look at their input: npy reads the headers of its files, source connects to
   its server and waits up to wait= seconds for the answer.  MR_ERR_USAGE: ports, cycles, queues;
   MR_ERR_CONFIG: settings; MR_ERR_SHAPE: specs; or a plan's own failure. */
mr_err_t mr_graph_settle(mr_graph_t *g, mr_diag_t *diag);

/* Settles the graph unless it is settled, opens the stages and starts their threads.  A graph runs
   once: MR_ERR_USAGE on the second call.  Fails as settle does, with MR_ERR_NOMEM, or as a stage's
   open; opened stages are closed again, and the graph may only be looked at and destroyed. */
mr_err_t mr_graph_start(mr_graph_t *g, mr_diag_t *diag);

/* Blocks until every thread has ended, and closes the stages.  After a stop, a cancel or a failure
   a thread that the kernel does not give back (a disk or server of files that does not answer) is
   waited for a second, or five where it only writes results and delays no one; the others then go
   on without it, and a notice names its stage.  It, its stage and g stay as they are until the
   process ends (mr_graph_is_stuck).

   MR_OK (also if the graph does not run); the first failure of any stage, as "STAGE: ...";
   MR_ERR_CANCEL after mr_graph_cancel; or the first stage's verdict; MR_ERR_USAGE at once in a
   child of the process that runs it. */
mr_err_t mr_graph_join(mr_graph_t *g, mr_diag_t *diag);

/* Whether a graph of this process was left to a thread that had not come back: end the process by
   _exit then, since that thread may do so while exit runs.  Any thread. */
bool mr_graph_is_stuck(void);

mr_err_t mr_graph_run(mr_graph_t *g, mr_diag_t *diag); /* start, then join; fails as either */

/* Asks for an orderly end: mr_stopping becomes true, sources of buffers end, the rest follows.
   Async-signal-safe; any thread between create and destroy; returns at once. */
void mr_graph_stop(mr_graph_t *g);

/* Ends at once: blocking calls of stages return MR_ERR_CANCEL, and so does join unless a stage
   failed earlier.  As safe as stop. */
void mr_graph_cancel(mr_graph_t *g);

/* ---- looking at a graph ---- */

int mr_graph_n_stages(const mr_graph_t *g); /* cannot fail */
/* The stage (its first worker) at i in [0,n) in the order of the text, or by name; NULL without
   one.  Owned by the graph, lives until the graph drops the stage or is destroyed.  Only def and
   name are set before settle; the state may be read after join. */
mr_stage_t *mr_graph_stage_at(const mr_graph_t *g, int i);
mr_stage_t *mr_graph_stage(const mr_graph_t *g, const char *name);
/* The first stage of this def, owned as above; NULL if the graph has none. */
mr_stage_t *mr_graph_stage_of(const mr_graph_t *g, const char *def);
/* The k-th stage, from 0, of a role, in the order of the text; owned as above, NULL without one. */
mr_stage_t *mr_graph_stage_with(const mr_graph_t *g, mr_role_t role, int k);
/* The text of a setting as given (variables replaced) or its default; NULL if the stage or both are
   missing.  Belongs to the graph, or is the definition's own. */
const char *mr_graph_setting(const mr_graph_t *g, const char *stage, const char *setting);
/* Whether the value of a variable must not be shown: a secret setting of a stage uses it, directly
   or through other variables.  False for a name that is no variable. */
bool mr_graph_hides(const mr_graph_t *g, const char *variable);

/* The name of the first stage of the text that makes batches of records; *last: the name of the
   last stage on the line of batches downstream (itself, if no stage changes them).  Both NULL
   without one; the graph owns the names.  Before settle too. */
const char *mr_graph_batches(const mr_graph_t *g, const char **last);

/* The name of the stage of that line which divides batches among hosts (setting host): the last one
   that can; NULL without one.  The graph owns it.  Before settle too. */
const char *mr_graph_shares(const mr_graph_t *g);

/* The name of the stage linked to an input port; NULL without one, or without such a stage.  The
   graph owns it.  Before settle too. */
const char *mr_graph_before(const mr_graph_t *g, const char *stage, int in_port);
/* One more than the last input of a stage that is linked; 0: none is, or there is no such stage. */
int mr_graph_n_inputs(const mr_graph_t *g, const char *stage);
/* What the graph calls that input, "valid" or "valid.dogs"; NULL if nothing leads into it.  The
   graph or the definition owns the name.  Before settle too. */
const char *mr_graph_input_name(const mr_graph_t *g, const char *stage, int in_port);

/* The name of a stage whose batches lie in the host's memory: this one, or, if its own lie on a
   device, the one before it; NULL without such a stage.  The graph owns it.  Before settle too. */
const char *mr_graph_on_host(const mr_graph_t *g, const char *stage);

/* What a stage has done: always counted, without a clock on the hot path.

   A worker reads the clock only when it starts and ends waiting; busy time is the rest of its life.
   Only its worker writes a counter; any thread reads it. */
typedef struct mr_stats {
  int workers;
  int64_t items;      /* buffers given, or taken if the stage has no output */
  int64_t alive_ns;   /* sum over the workers; the sum of the next three */
  int64_t busy_ns;    /* neither of the two below */
  int64_t starved_ns; /* waited for an input */
  int64_t blocked_ns; /* waited for room or for a free buffer */
  int64_t dropped;    /* messages dropped because subscribers were slow: mr_set_dropped */
  double depth;       /* mean number of buffers found waiting at an input */
  bool link;          /* it is the end of a link and has reported the next two: mr_set_link */
  int64_t released, committed; /* committed <= released */
} mr_stats_t;

/* What stage i has done so far, summed over its workers; zeros for a stage without threads, before
   the start or for an unknown i.  Any thread, while the graph runs too. */
void mr_graph_stats(const mr_graph_t *g, int i, mr_stats_t *out);

/* Writes the line of every stage that reports one (mr_stage_def_t.report, bad records, why it gave
   nothing).  After join. */
void mr_graph_report(const mr_graph_t *g, FILE *out);

/* Writes the settled graph in Graphviz' DOT language: stages with their settings, edges with their
   specs, fused chains as clusters.  MR_ERR_NOMEM, without a sentence: what was written is not
   whole.
 */
mr_err_t mr_graph_dot(const mr_graph_t *g, FILE *out);

/* ---- a timeline: what each worker did with which buffer, when it waited (timeline.c) ---- */

/* Switches the timeline on, before start: each worker keeps its last `events`, a power of two (32
   bytes each), in memory of a fixed size.  It is off by default; then a burst costs one comparison.
   Cannot fail: a graph without memory for it does not start. */
void mr_timeline_keep(mr_graph_t *g, int events);

/* After join: writes a Chrome trace.  A worker is a thread of the trace; a slice is named after the
   number of the buffer that it worked on, arrows follow a buffer from stage to stage.  Write errors
   stay in `to` (ferror). */
void mr_timeline_write(const mr_graph_t *g, FILE *to);

MR_END_DECLS

#endif
