/* The spec of an edge: what flows over it, settled for the whole graph before anything runs.

   Specs are plain values.  Their calls are pure, cannot fail unless they say so, and may be made
   from any thread. */
#ifndef MR_PIPELINE_SPEC_H
#define MR_PIPELINE_SPEC_H

#include <stdbool.h>

#include "base/classes.h"
#include "base/dataset.h"
#include "base/decls.h"
#include "base/dtype.h"

MR_BEGIN_DECLS

typedef enum mr_flow {
  MR_FLOW_NONE,
  MR_FLOW_RECORDS, /* an indexable dataset, read record by record by a fused chain */
  MR_FLOW_BATCHES, /* buffers of B records: their fields, key, draw */
  MR_FLOW_METRICS, /* buffers of one mr_report_t (metrics/report.h) */
  MR_FLOW_STATE,   /* buffers of one mr_state_t: what a checkpoint holds */
  MR_FLOW_BYTES,   /* buffers of plain bytes: counting source, tests */
} mr_flow_t;

typedef enum mr_layout { MR_LAYOUT_NONE, MR_LAYOUT_CHW, MR_LAYOUT_HWC } mr_layout_t;

/* Most numbers that the state of a stream has besides position and number: a state takes at most 4
   KiB, for any dataset, shuffle, mix and host count. */
enum { MR_STREAM_WORDS_MAX = 510 };

/* Most fields of a record; bytes of a field's name with its final NUL. */
enum { MR_FIELDS_MAX = 16, MR_FIELD_NAME = 32 };

/* One field of a record: "image", "label", "tokens". */
typedef struct mr_field {
  char name[MR_FIELD_NAME]; /* letters, digits, "_", "-" and "."; begins with a letter */
  mr_dtype_t dtype;
  mr_layout_t layout;       /* the order of a picture's dimensions */
  int ndim;                 /* 0: a single number; below MR_MAX_NDIM, which leaves room for B */
  int64_t dim[MR_MAX_NDIM]; /* for one record: (3,32,32); ragged: dim[0] is the largest it may be */
  bool ragged;              /* the first dimension differs from record to record, in [0,dim[0]] */
  bool varies;   /* RECORDS: HWC pictures whose height and width differ from record to record, up to
                    dim[0] and dim[1]; a value is one mr_picture_t (pipeline/picture.h) */
  bool label;    /* i32, no dimensions: a class, or MR_LABEL_NONE (base/dataset.h) if the record has
                    none or is excluded */
  int n_classes; /* label: classes are in [0,n_classes); 0: unknown */
  const mr_classes_t *classes; /* label, and rows of numbers for its classes, one-hot: what the
                                  numbers mean; owned by the stage that says so, from its plan to
                                  forget.  As many as n_classes, if that is known: other
                                  names do not leave the stage.  NULL: numbers without names */
  float mean[3], std[3]; /* pictures of floats: a byte was 255 * (value * std + mean); of bytes: a
                            step normalises them so; std 0: unknown */
} mr_field_t;

typedef struct mr_spec {
  mr_flow_t flow;
  int n_fields;                    /* RECORDS, BATCHES: at least 1; BYTES, STATE, METRICS: 1, whose
                                      dim[0] is the size of a buffer */
  mr_field_t field[MR_FIELDS_MAX]; /* [n_fields], names are unique */
  int64_t batch;                   /* BATCHES: B, the most records in a buffer */
  int64_t n_records;               /* RECORDS, BATCHES: records in one epoch; 0: unknown, or another
                                      flow */
  int64_t n_batches;               /* BATCHES: buffers in one epoch */
  int64_t n_epochs;                /* epochs in the stream; 0: endless */
  int64_t ahead;   /* BATCHES: buffers that the stream has given more than its epochs
                      say, since a resume changed their lengths; may be negative */
  bool even;       /* BATCHES: each holds B records, except the last one of an epoch or, if
                      n_batches is 0, of the stream */
  bool by_record;  /* BATCHES: the stage that makes them can begin at any record of its stream
                      (mr_stage_t.start_record) */
  bool part;       /* BATCHES: one host's slices of batches */
  int64_t whole;   /* BATCHES, part: the most records of a whole batch; 0: unknown */
  bool sequential; /* RECORDS: a walk (grain's IterDataset), not a function of positions; n_records
                      may then be 0, unknown */
  bool holes;      /* RECORDS: some positions may be holes */
  bool seeded;     /* RECORDS: each has a generator (mr_rec_t.rng), as the stage that seeds it
                      declares */
  int n_words;     /* RECORDS: numbers in a walk's state; BATCHES: in mr_buf_t.word */
  const mr_dataset_t *dataset;          /* NULL: unknown */
  const struct mr_metric_list *metrics; /* METRICS: those that its reports may hold beside
                                           millrace's own (base/metric.h); STATE: the numbers that
                                           a state may have been judged by.  Lives as long as the
                                           graph.  NULL: none */
  void (*fini)(void *value); /* METRICS: frees what the value in a buffer holds; a pool calls it for
                                each of its buffers when it is destroyed.  NULL: nothing */
  const char *device; /* BATCHES: the device in whose memory the fields' values lie, as users name
                         it; lives as long as the graph.  NULL: the host's memory */
  int ranks;          /* BATCHES: ranks of the step behind that share each batch; 0: it has none */
  const char *lies; /* METRICS: how the model's arrays lie on a mesh of ranks, as JSON for the page
                       of a run (stages/train/lies.c); NULL: ranks have whole ones; lives as long
                       as the stage that says it */
  const char *mesh; /* with ranks: the mesh whose ranks they are, "data=4,model=2", as given; lives
                       as long as the graph */
} mr_spec_t;

/* Elements of one record's field, 1 for a field without dimensions, and their bytes; for a ragged
   field the maximum; the bytes of a field that varies are those of an mr_picture_t. */
int64_t mr_field_count(const mr_field_t *f);
size_t mr_field_bytes(const mr_field_t *f);
/* Bytes of one row, the elements behind the first dimension: those of one element for a field
   without dimensions, 0 if a dimension behind the first is 0. */
size_t mr_field_row(const mr_field_t *f);

/* name_ok: true if name can be a field's name.  alike: true if two fields have equal dtype, layout,
   dimensions, ragged, varies and label, so that their bytes mean the same; names are not compared.
 */
bool mr_field_name_ok(const char *name);
bool mr_field_alike(const mr_field_t *a, const mr_field_t *b);

/* "image f32[32,32,3] HWC"; with B records, "image f32[128,32,32,3] HWC"; a dimension that
   differs from record to record is "<=4096".  Into text[0,n), n > 0; always NUL-terminated. */
void mr_field_text(const mr_field_t *f, int64_t batch, char *text, size_t n);

/* Index of the field of this name, or -1. */
int mr_spec_find(const mr_spec_t *spec, const char *name);
/* How many classes field f of a spec has, a label or one-hot rows: those that are named, else the
   field's n_classes, else those of the data set; 0: unknown. */
int mr_spec_classes(const mr_spec_t *spec, int f);
/* Index of the only label field; -1 without one, -2 if there are several. */
int mr_spec_label(const mr_spec_t *spec);
/* True if both have the same fields in the same order: equal names, and alike (mr_field_alike). */
bool mr_spec_alike(const mr_spec_t *a, const mr_spec_t *b);
/* The fields' names, "image, label", into the caller's text[0,n), n > 0, cut to fit; returns
   text. */
const char *mr_spec_names(const mr_spec_t *spec, char *text, size_t n);

/* A label field called "label", an i32 without dimensions; n_classes as in mr_field_t.  Returned by
   value. */
mr_field_t mr_field_of_label(int n_classes);

/* The spec of buffers of up to `bytes` bytes, for flow BYTES, STATE or METRICS.  Returned by
   value. */
mr_spec_t mr_spec_of_bytes(mr_flow_t flow, int64_t bytes);

/* Bytes of one item on the edge: all fields of a record, ragged ones at their longest; for batches
   those of B records, wherever they lie.  0 if the flow has no fields. */
size_t mr_spec_bytes(const mr_spec_t *spec);

/* "batches image f32[128,32,32,3] HWC, label i32[128], host" into text[0,n), with the device's name
   in place of "host" where the values lie on one; always NUL-terminated. */
void mr_spec_text(const mr_spec_t *spec, char *text, size_t n);

MR_END_DECLS

#endif
