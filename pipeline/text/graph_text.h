/* The text of a graph, or of the file that a word names. */
#ifndef MR_PIPELINE_TEXT_GRAPH_TEXT_H
#define MR_PIPELINE_TEXT_GRAPH_TEXT_H

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

enum { MR_GRAPH_BYTES_MAX = 64 << 20 /* of the text of a graph */ };

/* Reads what arg means into *text (heap, the caller frees it): the contents of the file of that
   name, else the argument itself.  *origin is arg or the static text "graph", for
   "FILE:LINE:COLUMN" in sentences.  *text is NULL on failure: MR_ERR_USAGE for a folder,
   MR_ERR_DATA for a binary or too large file, MR_ERR_IO, MR_ERR_NOMEM.  Any thread; blocks on the
   file system. */
mr_err_t mr_graph_text(const char *arg, char **text, const char **origin, mr_diag_t *diag);

MR_END_DECLS

#endif
