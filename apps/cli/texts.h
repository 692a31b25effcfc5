/* The graph texts that commands write for the user, and how flags add to them: data, in one place.
   The default training graph, examples/cifar10-vit.mr, is the other one (mr_default_graph).  All of
   it is static. */
#ifndef MR_APPS_TEXTS_H
#define MR_APPS_TEXTS_H

/* The folder where `millrace data fetch` puts the data of the default graph. */
extern const char mr_usual_data[];

/* Formats: a stage of the name %s that evaluates a checkpoint once, and again its name, which leads
   to what prints the result; batches of a source called "data", whose pictures are normalised by
   the settings %s. */
extern const char mr_eval_text[], mr_alone_text[];

/* Formats for the graphs of bench: a source of training records in the folder %s, and the same made
   from a seed; then after a source %s: the recipe to batches of %lld, one batch of it and no more
   than %lld records, records read into batches of %lld without being changed. */
extern const char mr_bench_source_text[], mr_bench_synthetic_text[];
extern const char mr_bench_loader_text[]; /* source, batch, workers */
extern const char mr_bench_first_text[];  /* source, records, batch */
extern const char mr_bench_reader_text[]; /* source, batch, workers */
extern const char mr_bench_hops_text[];   /* a counter, six stages that pass buffers on, an end */

/* Formats for the graphs of `data pack`: after a source %s, what scans its shards and keeps their
   indexes beside them; and a graph (its length as an int, its text) with a stage called "pack"
   behind it, on a line of its own, that makes batches of %d records in %lld threads. */
extern const char mr_pack_index_text[], mr_pack_batch_text[];

/* A flag of train that adds a stage to the run's graph. */
typedef struct mr_face {
  const char *flag, *text; /* text: what follows "!"; %s is the run folder */
} mr_face_t;

extern const mr_face_t mr_faces[]; /* ends at {0} */

#endif
