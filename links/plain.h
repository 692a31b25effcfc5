/* Plain requests: what a program of a few lines says to have batches without the whole protocol.

   It sends one frame, "NAME NUMBER": the name of the link and the batch it wants next, having done
   with all before it; and gets a head as JSON, keys, marks of excluded records and the fields.  It
   asks again when nothing came for a second (a server that was started again knows of no request),
   and may ask at any time for any number.  docs/links.md has the words of the head. */
#ifndef MR_LINKS_PLAIN_H
#define MR_LINKS_PLAIN_H

#include <zmq.h>

#include "pipeline/buffer.h"

enum {
  MR__PLAIN_FIELDS = 3, /* number of the first field's frame */
  MR__PLAIN_MOST = MR__PLAIN_FIELDS + 2 * MR_FIELDS_MAX,
};

/* Whether a frame is a request for the link of this name, and for which number. */
bool mr__plain_read(const void *frame, size_t n, const char *name, int64_t *number);

/* What a subscriber of a cast asks for: "NAME NUMBER" as above, "NAME NUMBER whole" for a DATA
   message of the protocol, "NAME spec" for its WELCOME.  false: none of them. */
typedef enum mr__cast_ask { MR__CAST_PLAIN, MR__CAST_WHOLE, MR__CAST_SPEC } mr__cast_ask_t;
bool mr__cast_read(const void *frame, size_t n, const char *name, mr__cast_ask_t *what,
                   int64_t *number);

/* The frames for a buffer, in part[0,n); the caller closes or sends them.  A field is a frame of
   its values, a ragged one two: its offsets come behind them.  hold: values stay where they are,
   and the buffer is held until they are sent; else they are copied.  Returns n; 0: no memory, and
   nothing to close. */
int mr__plain_write(const mr_spec_t *spec, mr_buf_t *b, int64_t number, bool hold,
                    zmq_msg_t part[MR__PLAIN_MOST]);
/* Number of the frame of field f's values. */
int mr__plain_frame(const mr_spec_t *spec, int f);
/* The head alone, for a request that cannot be answered: it says why, as a JSON text.  Returns 1,
   0: no memory. */
int mr__plain_error(int64_t number, const char *why, zmq_msg_t *part);
/* The same for the end of a stream of number buffers. */
int mr__plain_end(int64_t number, zmq_msg_t *part);

#endif
