/* The label that is none: of a record that was left out of a batch.  Its row weighs nothing. */
#ifndef MR_BASE_LABEL_H
#define MR_BASE_LABEL_H

#define MR_LABEL_NONE (-1)

#endif
