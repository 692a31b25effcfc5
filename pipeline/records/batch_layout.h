/* Which records are in which batch, where hosts divide batches and steps are skipped. */
#ifndef MR_PIPELINE_RECORDS_BATCH_LAYOUT_H
#define MR_PIPELINE_RECORDS_BATCH_LAYOUT_H

#include "base/ranges.h"
#include "pipeline/stage.h"

/* ---- slices: host I of N takes a contiguous slice of every batch ---- */

typedef struct mr_host {
  int64_t i, n;  /* i in [0,n) */
  int64_t parts; /* slices are whole parts of this many (base/parts.h); 0: of equal records */
} mr_host_t;

/* Parses "I/N" with 0 <= I < N <= size into *h; NULL or "" is 0/1.  MR_OK, or MR_ERR_CONFIG with a
   sentence of the stage. */
mr_err_t mr_host_parse(mr_stage_t *s, const char *text, int64_t size, mr_host_t *h);

/* Reduces slots [*from,*from+*n) to the host's own.  The slices of all hosts follow one another and
   differ by at most one slot, or with parts by one part; the first is then the longest. */
void mr_host_slice(const mr_host_t *h, int *from, int *n);

/* ---- a resume that changed the stream: where the batch behind this many steps begins ---- */

typedef struct mr_batch_resume {
  bool given;
  int64_t position, number;          /* the first record's position; batches before it */
  int n_words;                       /* of a stream that is walked: its state there */
  int64_t word[MR_STREAM_WORDS_MAX]; /* [n_words] */
} mr_batch_resume_t;

/* Parses "POSITION:NUMBER" or "POSITION:NUMBER:WORD,WORD,..", all in [0,2^62), into *r; NULL or ""
   is none.  MR_OK, or MR_ERR_CONFIG with a sentence of the stage. */
mr_err_t mr_batch_resume_parse(mr_stage_t *s, const char *text, mr_batch_resume_t *r);

/* ---- skipped steps: how many records come before a batch, and which batch holds one ---- */

typedef struct mr_left_out {
  const mr_ranges_t *steps; /* from 1, whose batches are empty */
  int64_t size;             /* >= 1: records of a full batch */
  int64_t batches, records; /* of an epoch, whose last batch may be short; 0: all batches are
                               full */
} mr_left_out_t;

/* Records in batches [0,n) without those of skipped steps; n times an epoch's records < 2^62.
   O(rows of steps).  Cannot fail. */
int64_t mr_left_out_before(const mr_left_out_t *t, int64_t n);

/* The number of the batch that holds record >= 0, counted without skipped ones; `most` if no batch
   in [0,most) does. */
int64_t mr_left_out_batch(const mr_left_out_t *t, int64_t record, int64_t most);

#endif
