/* The label that marks a record excluded from its batch; its row has zero weight. */
#ifndef MR_BASE_LABEL_H
#define MR_BASE_LABEL_H

#define MR_LABEL_NONE (-1)

#endif
