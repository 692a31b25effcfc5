/* The messages between two ends of a link as bytes.  Bytes from a peer are used only after every
   length and number in them was checked.  docs/links.md describes them for other programs.
   Implemented in wire.c, and wire_spec.c for specs. */
#ifndef MR_LINKS_WIRE_H
#define MR_LINKS_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "links/link.h"

enum {
  MR__LINK_VERSION = 3,
  MR__LINK_INLINE = 4096, /* largest field whose values travel in the message's first frame */
  MR__LINK_FRAMES = 1 + MR_FIELDS_MAX, /* most frames of a message */
  MR__LINK_SECRET = 16,
  MR__LINK_TOKEN = 64, /* a secret, then the name of the socket that expects it; zeros: no
                          sharing */
};

typedef enum mr__link_kind {
  MR__LINK_KNOCK = 1, /* sending end: announces itself; number: of the first buffer it holds */
  MR__LINK_HELLO,     /* receiving end: begins a session that resumes from number */
  MR__LINK_WELCOME,   /* sending end: accepts the session; has the spec */
  MR__LINK_REFUSE,    /* either: refuses, with the reason */
  MR__LINK_DATA,      /* sending end: buffer number */
  MR__LINK_ACK,       /* receiving end: buffers before number are released */
  MR__LINK_END,       /* sending end: the stream has number buffers */
  MR__LINK_BEAT,      /* either: still alive */
  MR__LINK_LEAVE,     /* receiving end: wants no more */
  MR__LINK_RESET,     /* either: this session is unknown here */
  MR__LINK_KIND_N
} mr__link_kind_t;

/* Every message begins with this, little-endian as are all numbers. */
typedef struct mr__link_head {
  char magic[4]; /* "MRLK" */
  uint16_t version;
  uint8_t kind, frames; /* frames that follow this one */
  uint64_t session;     /* chosen by the receiving end for each connection; 0 in KNOCK */
  int64_t number;
  uint32_t body, zero; /* bytes after the head in this frame */
} mr__link_head_t;
_Static_assert(sizeof(mr__link_head_t) == 32, "the head is 32 bytes on the wire");

enum { MR__LINK_SHARES = 1 }; /* flags of HELLO */

typedef struct mr__link_hello {
  int64_t epoch, position, limit;
  uint32_t flags, n_words;
  char name[MR_LINK_NAME_MAX]; /* NUL-terminated */
  char host[MR_LINK_NAME_MAX]; /* kernel and network: buffers can be shared if both ends agree */
} mr__link_hello_t;            /* then n_words int64 */

typedef struct mr__link_ack {
  int64_t limit;     /* buffers before it may be sent */
  int64_t committed; /* buffers before it are never sent again; <= number */
} mr__link_ack_t;

typedef struct mr__link_knock {
  char name[MR_LINK_NAME_MAX];
} mr__link_knock_t;

enum { MR__LINK_WHERE_PAYLOAD = 0, MR__LINK_WHERE_POOL = 1 };

/* Followed by n_words int64; then, unless the buffer is in a pool, for batches n keys, n draws, for
   each ragged field n + 1 offsets, n marks of excluded records (a byte each); then the values of
   each field that has no frame of its own.  Those frames follow in the order of the fields. */
typedef struct mr__link_data {
  int64_t epoch, position;
  uint64_t size;   /* bytes of all fields' values */
  uint64_t offset; /* WHERE_POOL: the buffer's, in the pool's memory */
  int32_t first, n;
  uint32_t flags, n_words;
  uint32_t where, pool;
  uint32_t apart, zero; /* bit f: the values of field f are a frame of their own */
} mr__link_data_t;
_Static_assert(sizeof(mr__link_data_t) == 64, "a DATA's body begins with 64 bytes on the wire");

/* Writes the head of a message with this body. */
void mr__link_head(mr__link_head_t *head, mr__link_kind_t kind, uint64_t session, int64_t number,
                   size_t body, int frames);

/* Reads a first frame of n bytes as a head: checks magic, version, kind, length of the body and the
   least body of that kind.  False: nothing of it may be used, and *why is a static sentence. */
bool mr__link_head_read(const void *frame, size_t n, mr__link_head_t *head, const char **why);

/* Whether a first frame of n bytes is a message of another version of the protocol; if so,
   why[0,cap) says which.  Magic, version and kind lie at the same place in all versions. */
bool mr__link_is_foreign(const void *frame, size_t n, int *kind, char *why, size_t cap);

/* Splits the body of a HELLO with this number; word has room for MR_LINK_WORDS.  False: it is
   malformed, or a number is impossible. */
bool mr__link_hello_read(const void *body, size_t n, int64_t number, mr__link_hello_t *hello,
                         int64_t *word);

/* Reads the body of an ACK with this number.  False: it is malformed, or a number is impossible. */
bool mr__link_ack_read(const void *body, size_t n, int64_t number, mr__link_ack_t *ack);

/* Splits the body of a DATA message, of a link with this spec, before n_frames more.  On success
   every part points into body (unaligned) or is NULL; data->n is at most spec->batch, and the sizes
   are those of n records.  A part `value` is NULL if the values have their own frame, whose size
   the caller compares with `bytes`. For a buffer in a pool only data and word are set.  False:
   nothing of it may be used. */
typedef struct mr__link_parts {
  const char *word, *key, *draw, *excluded;
  const char *offset[MR_FIELDS_MAX], *value[MR_FIELDS_MAX];
  size_t bytes[MR_FIELDS_MAX]; /* bytes of the field's values */
} mr__link_parts_t;
bool mr__link_data_read(const void *body, size_t n, int n_frames, const mr_spec_t *spec,
                        mr__link_data_t *data, mr__link_parts_t *parts);

/* Describes a buffer of this spec that travels as its bytes; fields of more than in_line bytes get
   their own frame.  Returned by value; cannot fail. */
mr__link_data_t mr__link_data_of(const mr_spec_t *spec, const mr_buf_t *b, size_t in_line);
/* Writes the first frame of its DATA message into out and returns its bytes, which first_bytes
   tells in advance; with in_line up to MR__LINK_INLINE no buffer of the spec needs more than
   first_max. */
size_t mr__link_data_write(const mr__link_data_t *d, const mr_spec_t *spec, const mr_buf_t *b,
                           uint64_t session, int64_t number, char *out);
size_t mr__link_first_bytes(const mr__link_data_t *d, const mr_spec_t *spec, const mr_buf_t *b);
size_t mr__link_first_max(const mr_spec_t *spec);

/* Bytes of field f's values in b, 0 if the batch is empty; for BYTES those of b. */
size_t mr__link_field_bytes(const mr_spec_t *spec, const mr_buf_t *b, int f);

/* True if n values (unaligned) of label field f are classes of the spec, or MR_LABEL_NONE. */
bool mr__link_labels_fit(const void *label, int n, const mr_spec_t *spec, int f);
/* True if n + 1 offsets (unaligned) of a ragged field begin at 0 and give each record as many rows
   as it may have; *rows: the rows of all records. */
bool mr__link_offsets_fit(const void *offset, int n, const mr_field_t *field, int64_t *rows);

enum { MR__LINK_SPEC = 4 << 20 }; /* most bytes of a spec, with the names of its classes */
/* Returns how many bytes the spec takes, with what is written before it in a message or more. */
size_t mr__link_spec_bytes(const mr_spec_t *spec);
/* Writes a spec into out[0,cap) and returns its bytes; 0 if it does not fit or is not of BATCHES or
   BYTES. */
size_t mr__link_spec_write(const mr_spec_t *spec, void *out, size_t cap);
/* Reads a spec; false if the bytes are not a spec, or without memory.  *names holds its dataset
   and the names of classes (NULL without any); the caller frees it after the spec. */
bool mr__link_spec_read(const void *in, size_t n, mr_spec_t *spec, void **names);
/* Writes a spec into out[0,*n), sets *n to its bytes, and reads them back into *back and *names:
   what is too much for a peer fails here, MR_ERR_SHAPE with a sentence. */
mr_err_t mr__link_spec_carry(const mr_spec_t *spec, void *out, size_t *n, mr_spec_t *back,
                             void **names, mr_diag_t *diag);
/* True if buffers of a can be taken for buffers of b.  If not, why[0,n) says what differs, and
   names the field: "field tokens: u32[4,<=7] there, u32[4,<=9] here", where a is there. */
bool mr__link_spec_same(const mr_spec_t *a, const mr_spec_t *b, char *why, size_t n);

#endif
