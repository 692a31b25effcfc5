/* Finds the rows of a CSV file and what its columns hold.

   The first row names the columns.  Cells are separated by commas, tabs or semicolons, whichever
   the first row has most of; a cell in double quotes may hold separators and ends of lines, and two
   quotes stand for one.  Source of the format: RFC 4180. */
#ifndef MR_LOADERS_FORMATS_TABLE_SCAN_H
#define MR_LOADERS_FORMATS_TABLE_SCAN_H

#include "loaders/shards/shards.h"

/* Kinds of columns in the index of a table. */
enum {
  MR_TABLE_ROW,       /* name "": the row, without its end of line */
  MR_TABLE_SEPARATOR, /* name: ",", "\t" or ";" */
  MR_TABLE_NAME,      /* a column, in the order of the first row */
  MR_TABLE_INT,       /* the same, with what all its cells of this file are */
  MR_TABLE_FLOAT,     /* numbers, or empty */
  MR_TABLE_TEXT,      /* sizes: of the cells, without quotes */
  MR_TABLE_MANY,      /* text with more words than are counted */
  MR_TABLE_NOT_F32,   /* numbers of a column that f32 changes: whole ones, and those too large */
  MR_TABLE_NOT_F64,   /* the same for f64 */
  MR_TABLE_UNNAMED,   /* a column to which the first row gives no name */
  MR_TABLE_GAPS,      /* cells of a column that lack a number, where all others are whole */
  MR_TABLE_ZEROS,     /* whole numbers of three digits or more with zeros in front */
  MR_TABLE_WORD, /* "NAME\tWORD": a word of a column, of all of its words in the file or none */
};

enum { MR_TABLE_COLUMNS_MAX = 8192 };
/* Different words of a column that can be classes, in a file and in all.  A file of many columns
   counts fewer of each, at least MR_TABLE_WORDS_LEAST. */
enum {
  MR_TABLE_WORDS_MAX = 10000,
  MR_TABLE_WORDS_LEAST = 256,
  MR_TABLE_WORDS_ONCE = 1024,     /* of a column of a file in which nearly all words differ */
  MR_TABLE_WORDS_ROOM = 18 * 1024 /* words of all columns of text in a file */
};
enum { MR_TABLE_CELL_MAX = 128 /* bytes from which on a cell is neither a number nor a word */ };

/* An mr_shard_scan_fn.  A row with another number of cells than the first is a record all the same,
   and a bad one when it is read. */
mr_err_t mr_table_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                       mr_diag_t *diag);

/* Moves *text and *n to what is left without blanks around it. */
void mr_table_trim(const char **text, size_t *n);

/* Returns whether a cell without blanks stands for a missing number: it is empty, or holds NA,
   null, None or the like, as pandas reads them. */
bool mr_table_missing(const char *text, size_t n);

/* Returns whether a cell without blanks is a number, as columns of numbers have them: decimal, inf
   too. */
bool mr_table_number(const char *text, size_t n);

/* Cuts the next cell from the text [*at,end), which it changes: quotes are removed.  Sets
   cell[0,*n) and moves *at behind the separator, or to NULL behind the last cell.  False for a
   quote that is not closed. */
bool mr_table_cell(char **at, char *end, char separator, char **cell, size_t *n);

#endif
