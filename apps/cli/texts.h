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

/* Formats: a stage of the name %s that predicts; and batches of a source %s, its settings, maps. */
extern const char mr_predict_text[], mr_unlabelled_text[], mr_normal_of_text[];

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

/* How data of a kind are read: the stage that reads them, its setting that says where, and the
   endings of its files, "" for kinds that other things show. */
typedef enum mr_kind {
  MR_KIND_PICTURES, /* a folder of pictures for each class */
  MR_KIND_CIFAR10,
  MR_KIND_CIFAR100,
  MR_KIND_TAR,
  MR_KIND_TFRECORD,
  MR_KIND_ARRAYRECORD,
  MR_KIND_MDS,
  MR_KIND_LITDATA,
  MR_KIND_BETON,
  MR_KIND_NPY,
  MR_KIND_NPZ,
  MR_KIND_SAFETENSORS,
  MR_KIND_TABLE,
  MR_KIND_TOKENS,
  MR_KINDS
} mr_kind_t;
typedef struct mr_kind_text {
  const char *stage, *place, *ends, *called; /* called: "tar archives" */
} mr_kind_text_t;
extern const mr_kind_text_t mr_kind_texts[MR_KINDS];

/* Formats for the graph that train chooses for data (apps/run/choose_graph.c), and for looking at
   them: a source %s with 64 of its records from all places, and all of its labels. */
extern const char mr_chosen_head_text[];  /* comment, data, more variables, epochs, batch */
extern const char mr_chosen_train_text[]; /* source, its settings, maps, settings of the step */
extern const char mr_chosen_valid_text[]; /* source, name, its settings, maps, name, input */
extern const char mr_chosen_tail_text[];  /* no argument */
extern const char mr_let_data_text[];     /* where the data are */
extern const char mr_look_text[], mr_look_labels_text[]; /* source, its settings; field of labels */
extern const char mr_most_classes_text[]; /* a setting: more classes than there are */
extern const char mr_decode_text[], mr_vary_text[], mr_crop_text[], mr_resize_text[];
extern const char mr_normal_rgb_text[], mr_normal_text[], mr_rename_text[];
extern const char mr_step_vit_text[], mr_step_mlp_text[];

/* A flag of train that adds a stage to the run's graph. */
typedef struct mr_face {
  const char *flag, *text; /* text: what follows "!"; %s is the run folder */
} mr_face_t;

extern const mr_face_t mr_faces[]; /* ends at {0} */

#endif
