/* Plain requests: how a program of a few lines gets batches without the whole protocol.

   It sends one frame, "NAME NUMBER": the name of the link and the number of the batch it wants
   next, which acknowledges all batches before it.  It gets a head as JSON, keys, marks of excluded
   records and the fields.  It repeats the request when nothing comes for a second (a restarted
   server knows of no request), and may ask at any time for any number.  docs/links.md describes the
   head. */
#ifndef MR_LINKS_PLAIN_H
#define MR_LINKS_PLAIN_H

#include <zmq.h>

#include "pipeline/buffer.h"

enum {
  MR__PLAIN_FIELDS = 3, /* index of the first field's frame */
  MR__PLAIN_MOST = MR__PLAIN_FIELDS + 2 * MR_FIELDS_MAX,
};

/* True if a frame is a request for the link of this name, and for which number. */
bool mr__plain_read(const void *frame, size_t n, const char *name, int64_t *number);

/* True if a frame is a request of a cast's subscriber: "NAME NUMBER" as above, "NAME NUMBER whole"
   for a DATA message of the protocol, "NAME spec" for its WELCOME. */
typedef enum mr__cast_ask { MR__CAST_PLAIN, MR__CAST_WHOLE, MR__CAST_SPEC } mr__cast_ask_t;
bool mr__cast_read(const void *frame, size_t n, const char *name, mr__cast_ask_t *what,
                   int64_t *number);

/* Makes the frames for a buffer, part[0,n); the caller sends or closes them.  A field is a frame of
   its values, a ragged one two: its offsets follow.  hold: the values stay in place, and the frames
   hold references to the buffer until they are sent; else they are copied.  Returns n; 0 without
   memory, and there is nothing to close. */
int mr__plain_write(const mr_spec_t *spec, mr_buf_t *b, int64_t number, bool hold,
                    zmq_msg_t part[MR__PLAIN_MOST]);
/* Index, in [0,MR__PLAIN_MOST), of the frame with field f's values. */
int mr__plain_frame(const mr_spec_t *spec, int f);
/* The head alone, with the reason as a JSON string, for a request that cannot be answered.  Returns
   1, or 0 without memory. */
int mr__plain_error(int64_t number, const char *why, zmq_msg_t *part);
/* The head alone, for the end of a stream of `number` buffers.  Returns 1, or 0 without memory. */
int mr__plain_end(int64_t number, zmq_msg_t *part);

#endif
