/* The formats that `millrace pack` writes: how records become a shard's bytes. */
#ifndef MR_APPS_DATA_PACK_H
#define MR_APPS_DATA_PACK_H

#include "base/err.h"
#include "pipeline/buffer.h"
#include "pipeline/spec.h"

/* Bytes that grow. */
typedef struct mr_pack_bytes {
  uint8_t *at; /* heap */
  size_t n, cap;
  bool short_of; /* memory: nothing has been added since */
} mr_pack_bytes_t;

/* Appends data[0,n); data NULL: zeros.  Without memory it sets short_of. */
void mr_pack_add(mr_pack_bytes_t *b, const void *data, size_t n);

/* The value of field f of record i in a batch: its bytes, and its rows if the field is ragged. */
typedef struct mr_pack_value {
  const void *data;
  size_t bytes;
  int64_t rows;
} mr_pack_value_t;
mr_pack_value_t mr_pack_value(const mr_spec_t *spec, const mr_buf_t *b, int f, int i);

/* The whole number of a label or of another scalar integer. */
int64_t mr_pack_whole(const mr_field_t *field, const void *data);
bool mr_pack_is_whole(const mr_field_t *field);

enum { MR_PACK_MAX = 4096 };

typedef struct mr_pack_format {
  const char *name;   /* of the format and of the stage that reads it */
  const char *ending; /* of a shard's name, ".tar" */

  /* MR_OK if it can hold such records, else MR_ERR_CONFIG with a sentence. */
  mr_err_t (*check)(const mr_spec_t *spec, mr_diag_t *diag);

  /* Appends record i of the batch, number `number` of the stream, to a shard's bytes; ends notes
     where records end, for formats that need it.  Cannot fail but for want of memory. */
  void (*add)(const mr_spec_t *spec, const mr_buf_t *b, int i, int64_t number,
              mr_pack_bytes_t *bytes, mr_pack_bytes_t *ends);

  /* Makes the file's bytes of them.  MR_ERR_DATA if the shard would be too large. */
  mr_err_t (*end)(const mr_spec_t *spec, mr_pack_bytes_t *bytes, const mr_pack_bytes_t *ends,
                  mr_diag_t *diag);

  /* Writes fields= of the stage that reads the shards back as they were. */
  void (*fields)(const mr_spec_t *spec, char text[MR_PACK_MAX]);

  bool by_folder; /* the stage reads a folder with an index.json, which pack writes */
} mr_pack_format_t;

extern const mr_pack_format_t mr_pack_tar, mr_pack_tfrecord, mr_pack_mds;

#endif
