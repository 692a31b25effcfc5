/* The stream graph: stages and the edges between them, from text or from calls.

   Life: create -> (parse | add, set, link) -> (override, swap) -> settle -> run -> destroy.
   One thread builds; mr_graph_stop and the statistics may be called by any. */
#ifndef MR_PIPELINE_GRAPH_H
#define MR_PIPELINE_GRAPH_H

#include <stdio.h>

#include "base/decls.h"
#include "pipeline/registry.h"
#include "pipeline/stage.h"
#include "pipeline/stats.h"
#include "pipeline/stream_at.h"

MR_BEGIN_DECLS

typedef struct mr_graph mr_graph_t;

enum { MR_MAX_WORKERS = 64 };

/* An empty graph over the stages of reg, which must outlive it.  NULL when memory is short. */
mr_graph_t *mr_graph_create(const mr_registry_t *reg);
void mr_graph_destroy(mr_graph_t *g); /* cancels and joins a running graph; NULL is fine */

/* ---- building by calls; names are copied ---- */

/* Adds stage def.  name NULL: def's own name, with a number from the second on.  Leaves the
   stage's name, owned by the graph, in *given if given is not NULL. */
mr_err_t mr_graph_add(mr_graph_t *g, const char *def, const char *name, const char **given,
                      mr_diag_t *diag);

/* The same for a stage that no registry holds: a program's own.  def outlives the graph. */
mr_err_t mr_graph_add_def(mr_graph_t *g, const mr_stage_def_t *def, const char *name,
                          const char **given, mr_diag_t *diag);

/* Sets a setting from its text; the last call wins.  The name is checked now, the value when the
   graph settles. */
mr_err_t mr_graph_set(mr_graph_t *g, const char *stage, const char *setting, const char *value,
                      mr_diag_t *diag);

/* Links an output port to an input port; a NULL port is the first one.  An output port may be
   linked to several inputs (an implicit tee). */
mr_err_t mr_graph_link(mr_graph_t *g, const char *from, const char *out_port, const char *to,
                       const char *in_port, mr_diag_t *diag);

/* ---- the text form ----

     let batch = 128                                  # a variable, at the start of a line
     cifar10 path="my data" ! shuffle seed=12 ! batch $batch drop-remainder ! vit-step name=train
     train. ! progress      train.state ! checkpoint      cifar10 name=v ! batch 256 ! train.valid

   stage key=value word ! stage ... are chains; whitespace and newlines stand anywhere between
   words; a chain ends where a stage or a reference follows without "!".  A bare word is a yes-or-no
   setting or the stage's positional value.  "x." goes on from the first output port of stage x,
   "x.port" from (or at the end of a chain, into) a named one, wherever x stands.  Quotes "" and ''
   keep spaces; $NAME or ${NAME} in a value is replaced, $$ is a dollar; # starts a comment.
   process NAME key=value ... { ... } at the start of a line says in which process the stages of
   its chains run (pipeline/process.h).  plugin FILE at the start of a line, before the stages that
   it brings, loads a plug-in (mr_graph_on_plugin). */

/* Loads the plug-in FILE into the registry of the graph.  origin: that of the graph's text
   (mr_graph_set_origin), NULL without one.  On failure the sentence goes to diag, without a place.
 */
typedef mr_err_t mr_plugin_fn(void *ctx, const char *origin, const char *file, mr_diag_t *diag);

/* What "plugin FILE" in the text does; before parse.  A plug-in is code, and text may come from
   anywhere: without this call such text is refused with MR_ERR_UNAVAILABLE. */
void mr_graph_on_plugin(mr_graph_t *g, mr_plugin_fn *load, void *ctx);

/* Adds what text says, then applies overrides[0,n) (mr_graph_override).  What is wrong with the
   text reads "ORIGIN:LINE:COLUMN: ..." (mr_graph_set_origin before this call), or without ORIGIN;
   what is wrong with an override names it.  After a failure the graph is fit only to be destroyed.
 */
mr_err_t mr_graph_parse(mr_graph_t *g, const char *text, const char *const *overrides, int n,
                        mr_diag_t *diag);

/* "KEY=VALUE", before settle.  KEY is a variable of the text, STAGE.SETTING, or a setting that
   exactly one stage has. */
mr_err_t mr_graph_override(mr_graph_t *g, const char *key_value, mr_diag_t *diag);

/* Replaces every stage of def from by one of def to, keeping links and the settings that both
   know.  MR_OK also when there is none; a stage with an own name= keeps it. */
mr_err_t mr_graph_swap(mr_graph_t *g, const char *from, const char *to, mr_diag_t *diag);

/* Drops every stage that does not stand before this one, so that its stream can be had alone.
   Pointers to stages and their names stay as they are for those that are kept. */
mr_err_t mr_graph_only(mr_graph_t *g, const char *stage, mr_diag_t *diag);

/* Writes the graph in a canonical form (one stage or link a line, settings given, variables
   replaced): two graphs are the same if their dumps are. */
void mr_graph_dump(const mr_graph_t *g, FILE *out);

/* ---- settling and running ---- */

/* Buffers a ring of every edge holds, a power of two in [2,1024].  Default: 4, and for small
   buffers up to 256 so that bursts pay.  Before settle. */
mr_err_t mr_graph_set_depth(mr_graph_t *g, int depth, mr_diag_t *diag);

/* Most buffers that the pool of any stage has, in [1,65536]: less memory for less overlap.
   Default: as many as the rings hold.  One that could bring the graph to a standstill is refused
   when it settles.  Before settle. */
mr_err_t mr_graph_set_pool(mr_graph_t *g, int most, mr_diag_t *diag);

/* The stream of batches that a stage gives goes on where it stood, for a resume: told to each stage
   from this one back to the one that makes batches of records.  A stream with words is found by
   them at once.  MR_ERR_DATA: the state of another graph.  Links come first; before run. */
mr_err_t mr_graph_go_on(mr_graph_t *g, const char *stage, const mr_stream_at_t *at,
                        mr_diag_t *diag);

/* The same from parts: a position alone (a stream that has words then goes through its records from
   the start, and reads those that filters look at), or with words. */
mr_err_t mr_graph_start_at(mr_graph_t *g, const char *stage, int64_t position, mr_diag_t *diag);
mr_err_t mr_graph_start_words(mr_graph_t *g, const char *stage, int64_t position,
                              const int64_t *word, int n, mr_diag_t *diag);

/* The number, from 0, of the first buffer that a stage gives.  Beside a position it says what
   number that buffer has; alone it is where the stream begins: found at once where batches are a
   function of their number, else by moving past the records without making them (mr_walk_pass). */
mr_err_t mr_graph_start_number(mr_graph_t *g, const char *stage, int64_t number, mr_diag_t *diag);

/* As go_on, to before the buffer of this number, from 0; *found: its state follows from the number
   alone.  After settle, before run. */
mr_err_t mr_graph_seek(mr_graph_t *g, const char *stage, int64_t number, bool *found,
                       mr_diag_t *diag);

/* Where the text came from, a file's name: parse and settle tell it before LINE:COLUMN.  Copied.
   MR_ERR_NOMEM. */
mr_err_t mr_graph_set_origin(mr_graph_t *g, const char *origin, mr_diag_t *diag);

/* Checks ports and cycles, parses settings, plans every stage, settles the spec of every edge;
   refuses what could come to a standstill (a stage whose inputs wait for one another, a pool that
   is too small).  Touches no file or device. */
mr_err_t mr_graph_settle(mr_graph_t *g, mr_diag_t *diag);

/* Settles if need be, opens the stages and starts their threads.  A graph runs once. */
mr_err_t mr_graph_start(mr_graph_t *g, mr_diag_t *diag);

/* Waits for the end, closes the stages.  MR_OK, or the first failure of any stage, told as
   "STAGE: ...". */
mr_err_t mr_graph_join(mr_graph_t *g, mr_diag_t *diag);

mr_err_t mr_graph_run(mr_graph_t *g, mr_diag_t *diag); /* start and join */

/* Asks for an orderly end: mr_stopping becomes true, sources of buffers end, the rest follows.
   Async-signal-safe; any thread between create and destroy. */
void mr_graph_stop(mr_graph_t *g);

/* Ends at once: blocking calls of stages return MR_ERR_CANCEL, and so does join unless a stage
   had failed before.  As safe as stop. */
void mr_graph_cancel(mr_graph_t *g);

/* ---- looking at a graph ---- */

int mr_graph_n_stages(const mr_graph_t *g);
/* The stage (its first worker) at i in [0,n) in the order of the text, or by name; NULL if there is
   none.  Only def and name are set before settle.  Owned by the graph; its state may be read after
   join. */
mr_stage_t *mr_graph_stage_at(const mr_graph_t *g, int i);
mr_stage_t *mr_graph_stage(const mr_graph_t *g, const char *name);
/* The first stage of this def, or NULL. */
mr_stage_t *mr_graph_stage_of(const mr_graph_t *g, const char *def);
/* The text of a setting as given (variables replaced) or its default; NULL if neither is there. */
const char *mr_graph_setting(const mr_graph_t *g, const char *stage, const char *setting);

/* The first stage of the text that makes batches of records, and the last one on the line of
   batches behind it (itself, if none changes them); NULL if there is none.  Before settle too. */
const char *mr_graph_batches(const mr_graph_t *g, const char **last);

/* The stage of that line which cuts batches over hosts (setting host): the last one that can; NULL
   if there is none.  Before settle too. */
const char *mr_graph_shares(const mr_graph_t *g);

/* The stage linked to an input port, or NULL.  Before settle too. */
const char *mr_graph_before(const mr_graph_t *g, const char *stage, int in_port);

/* What stage i has done so far, summed over its workers.  Live; zero for those without a thread. */
void mr_graph_stats(const mr_graph_t *g, int i, mr_stats_t *out);

/* Writes the line of every stage that reports one (mr_stage_def_t.report).  After join. */
void mr_graph_report(const mr_graph_t *g, FILE *out);

/* Writes the settled graph in Graphviz' DOT language: stages with their settings, edges with their
   specs, fused chains as clusters. */
void mr_graph_dot(const mr_graph_t *g, FILE *out);

MR_END_DECLS

#endif
