/* What flows over an edge: settled for the whole graph before anything runs. */
#ifndef MR_PIPELINE_SPEC_H
#define MR_PIPELINE_SPEC_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/dtype.h"

MR_BEGIN_DECLS

typedef enum mr_flow {
  MR_FLOW_NONE,
  MR_FLOW_RECORDS, /* an indexable dataset, read record by record inside a fused chain */
  MR_FLOW_BATCHES, /* buffers of B records: data, label, key, draw */
  MR_FLOW_METRICS, /* buffers of one mr_metrics_t */
  MR_FLOW_STATE,   /* buffers of one mr_state_t: what a checkpoint holds */
  MR_FLOW_BYTES,   /* buffers of plain bytes: counting source, tests */
} mr_flow_t;

typedef enum mr_layout { MR_LAYOUT_NONE, MR_LAYOUT_CHW, MR_LAYOUT_HWC } mr_layout_t;
typedef enum mr_place { MR_PLACE_HOST, MR_PLACE_PINNED, MR_PLACE_CUDA } mr_place_t;

/* Numbers that the state of a stream may have beside position and number: all together 4 KiB, for
   any dataset, shuffle, mix and host count. */
enum { MR_STREAM_WORDS_MAX = 510 };

/* Where records come from; static or owned by the source stage. */
typedef struct mr_dataset {
  const char *origin; /* "cifar10", "synthetic": said in every metrics record */
  int n_classes;
  const char *const *class_name; /* [n_classes] */
} mr_dataset_t;

typedef struct mr_spec {
  mr_flow_t flow;
  mr_dtype_t dtype;
  mr_layout_t layout;
  mr_place_t place;
  int ndim;
  int64_t dim[MR_MAX_NDIM]; /* RECORDS: of one record, (3,32,32); BATCHES: (B,32,32,3) */
  int64_t n_records;        /* RECORDS, BATCHES: records in one epoch; 0 where it means nothing */
  int64_t n_batches;        /* BATCHES: buffers in one epoch */
  int64_t n_epochs;         /* epochs the stream has; 0: endless */
  bool even;       /* BATCHES: all hold dim[0] records but the last one of an epoch, or, where
                      n_batches is 0, of the stream */
  bool by_record;  /* BATCHES: the stage that makes them can begin with any record of its stream
                      (mr_stage_t.start_record) */
  bool part;       /* BATCHES: one host's slices of batches */
  bool sequential; /* RECORDS: a walk (grain's IterDataset), not a function of positions;
                      n_records may then be 0, unknown */
  bool holes;      /* RECORDS: some positions may hold nothing */
  bool seeded;  /* RECORDS: each has a generator (mr_rec_t.rng), as the stage said that starts it */
  int n_labels; /* RECORDS: labels are in [0,n_labels); 0: not known */
  int n_words;  /* RECORDS: numbers of a walk's state; BATCHES: of mr_buf_t.word */
  const mr_dataset_t *dataset; /* NULL where there is none */
  float mean[3], std[3]; /* f32 pictures: a byte was 255 * (value * std + mean); std 0: unknown */
} mr_spec_t;

/* Bytes of one item of the edge (a record, or a whole batch). */
size_t mr_spec_bytes(const mr_spec_t *spec);

/* "batches f32[128,32,32,3] HWC host" into text[0,n); always NUL-terminated. */
void mr_spec_text(const mr_spec_t *spec, char *text, size_t n);

MR_END_DECLS

#endif
