/* `millrace inspect --words`. */
#ifndef MR_APPS_LOOK_WORDS_H
#define MR_APPS_LOOK_WORDS_H

/* Writes every row of every table of hints (base/hint.h) to standard output, one a line. */
void mr_words_print(void);

#endif
