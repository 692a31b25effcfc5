/* What flows over an edge: settled for the whole graph before anything runs. */
#ifndef MR_PIPELINE_SPEC_H
#define MR_PIPELINE_SPEC_H

#include <stdbool.h>

#include "base/dataset.h"
#include "base/decls.h"
#include "base/dtype.h"

MR_BEGIN_DECLS

typedef enum mr_flow {
  MR_FLOW_NONE,
  MR_FLOW_RECORDS, /* an indexable dataset, read record by record inside a fused chain */
  MR_FLOW_BATCHES, /* buffers of B records: their fields, key, draw */
  MR_FLOW_METRICS, /* buffers of one mr_metrics_t (metrics/metrics.h) */
  MR_FLOW_STATE,   /* buffers of one mr_state_t: what a checkpoint holds */
  MR_FLOW_BYTES,   /* buffers of plain bytes: counting source, tests */
} mr_flow_t;

typedef enum mr_layout { MR_LAYOUT_NONE, MR_LAYOUT_CHW, MR_LAYOUT_HWC } mr_layout_t;

/* Numbers that the state of a stream may have beside position and number: all together 4 KiB, for
   any dataset, shuffle, mix and host count. */
enum { MR_STREAM_WORDS_MAX = 510 };

/* Fields of a record at most, and bytes of a field's name with its final zero. */
enum { MR_FIELDS_MAX = 16, MR_FIELD_NAME = 32 };

/* One field of a record: "image", "label", "tokens". */
typedef struct mr_field {
  char name[MR_FIELD_NAME]; /* letters, digits, "_", "-" and "."; begins with a letter */
  mr_dtype_t dtype;
  mr_layout_t layout;       /* what the dimensions of a picture mean */
  int ndim;                 /* 0: a single number; below MR_MAX_NDIM, which leaves room for B */
  int64_t dim[MR_MAX_NDIM]; /* of one record: (3,32,32); ragged: dim[0] is the most it may be */
  bool ragged;              /* the first dimension differs from record to record, in [0,dim[0]] */
  bool label;    /* i32, no dimensions: a class, or MR_LABEL_NONE (base/label.h) where a record has
                    none or is excluded */
  int n_classes; /* label: classes are in [0,n_classes); 0: not known */
  float mean[3], std[3]; /* f32 pictures: a byte was 255 * (value * std + mean); std 0: unknown */
} mr_field_t;

typedef struct mr_spec {
  mr_flow_t flow;
  int n_fields;                    /* RECORDS, BATCHES: at least 1; BYTES, STATE, METRICS: 1, whose
                                      dim[0] is the size of a buffer */
  mr_field_t field[MR_FIELDS_MAX]; /* [n_fields], of different names */
  int64_t batch;                   /* BATCHES: B, the records that a buffer holds at most */
  int64_t n_records;               /* RECORDS, BATCHES: records in one epoch; 0 where it means
                                      nothing */
  int64_t n_batches;               /* BATCHES: buffers in one epoch */
  int64_t n_epochs;                /* epochs the stream has; 0: endless */
  bool even;       /* BATCHES: all hold B records but the last one of an epoch, or, where n_batches
                      is 0, of the stream */
  bool by_record;  /* BATCHES: the stage that makes them can begin with any record of its stream
                      (mr_stage_t.start_record) */
  bool part;       /* BATCHES: one host's slices of batches */
  bool sequential; /* RECORDS: a walk (grain's IterDataset), not a function of positions;
                      n_records may then be 0, unknown */
  bool holes;      /* RECORDS: some positions may hold nothing */
  bool seeded; /* RECORDS: each has a generator (mr_rec_t.rng), as the stage said that starts it */
  int n_words; /* RECORDS: numbers of a walk's state; BATCHES: of mr_buf_t.word */
  const mr_dataset_t *dataset; /* NULL where there is none */
} mr_spec_t;

/* Number of elements of one record's field, and their bytes; of a ragged field the most. */
int64_t mr_field_count(const mr_field_t *f);
size_t mr_field_bytes(const mr_field_t *f);
/* Bytes of one row: of the elements behind the first dimension; of a field without dimensions, of
   its one element. */
size_t mr_field_row(const mr_field_t *f);

/* Whether a text can be a field's name, and whether two fields differ in nothing that a stage could
   see of their bytes: dtype, layout, dimensions, ragged, label.  Names are not compared. */
bool mr_field_name_ok(const char *name);
bool mr_field_alike(const mr_field_t *a, const mr_field_t *b);

/* "image f32[32,32,3] HWC"; with B records, "image f32[128,32,32,3] HWC"; a ragged dimension is
   "<=4096".  Into text[0,n), n > 0; always NUL-terminated. */
void mr_field_text(const mr_field_t *f, int64_t batch, char *text, size_t n);

/* Number of the field of this name, -1: there is none. */
int mr_spec_find(const mr_spec_t *spec, const char *name);
/* Number of the only field that is a label; -1: there is none, -2: there are several. */
int mr_spec_label(const mr_spec_t *spec);
/* Whether both have the same fields: names, order, and as mr_field_alike. */
bool mr_spec_alike(const mr_spec_t *a, const mr_spec_t *b);
/* Names of the fields, "image, label", into text[0,n), n > 0; returns text. */
const char *mr_spec_names(const mr_spec_t *spec, char *text, size_t n);

/* The field of a class, named "label"; n_classes as there. */
mr_field_t mr_field_of_label(int n_classes);

/* BYTES, STATE or METRICS: the spec of buffers of up to `bytes` bytes. */
mr_spec_t mr_spec_of_bytes(mr_flow_t flow, int64_t bytes);

/* Bytes of one item of the edge: of all fields of a record, ragged ones at their longest; of a
   batch, of B records. */
size_t mr_spec_bytes(const mr_spec_t *spec);

/* "batches image f32[128,32,32,3] HWC, label i32[128], host" into text[0,n); always
   NUL-terminated. */
void mr_spec_text(const mr_spec_t *spec, char *text, size_t n);

MR_END_DECLS

#endif
