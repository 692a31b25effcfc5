/* Reads tf.train.Example messages in place: names and values of features, without copies.

   Sources: TensorFlow's example.proto and feature.proto; Protocol Buffers, "Encoding".  Any thread;
   nothing is allocated. */
#ifndef MR_LOADERS_FORMATS_EXAMPLE_H
#define MR_LOADERS_FORMATS_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum mr_feature_kind {
  MR_FEATURE_NONE, /* neither list is set */
  MR_FEATURE_BYTES,
  MR_FEATURE_FLOAT,
  MR_FEATURE_INT64,
} mr_feature_kind_t;

/* One feature; it points into the message. */
typedef struct mr_example_feature {
  const char *name; /* [name_n] no NUL follows */
  size_t name_n;
  mr_feature_kind_t kind;
  const uint8_t *list; /* [list_n] the encoded list */
  size_t list_n;
  int64_t n; /* values in it */
  int lists; /* encoded lists: protobuf joins those of messages that occur twice */
  const uint8_t
      *entry; /* [entry_n] of several: the message that holds them all; list is the first */
  size_t entry_n;
} mr_example_feature_t;

/* A walk over the features of a message.  Zero all but at and end, which delimit it. */
typedef struct mr_example_walk {
  const uint8_t *at, *end;         /* of the message */
  const uint8_t *map_at, *map_end; /* of the features not yet walked over */
  bool sequences; /* the feature lists of a SequenceExample instead, of which only names are set */
} mr_example_walk_t;

/* Sets *f to the next feature.  MR_OK; MR_END behind the last; MR_ERR_DATA, with a sentence that
   does not name the file, if the message is malformed: no length in it leads out of it then. */
mr_err_t mr_example_next(mr_example_walk_t *w, mr_example_feature_t *f, mr_diag_t *diag);

/* Copies the values of a feature from mr_example_next, of the kind that the name says, into
   out[f->n]; bytes returns where the first value lies in the message, valid as long as that, and
   sets *n to its size.  The list has been checked, so that only ints can fail: it returns false if
   narrow, which makes out i32, and a value does not fit. */
bool mr_example_ints(const mr_example_feature_t *f, bool narrow, void *out);
void mr_example_floats(const mr_example_feature_t *f, float *out);
const uint8_t *mr_example_bytes(const mr_example_feature_t *f, size_t *n); /* f->n >= 1 */

#endif
