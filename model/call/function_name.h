/* The names of functions by their addresses in this process.  One thread at a time. */
#ifndef MR_MODEL_CALL_FUNCTION_NAME_H
#define MR_MODEL_CALL_FUNCTION_NAME_H

#include <stddef.h>

typedef struct mr__functions mr__functions_t;

mr__functions_t *mr__functions_create(void); /* NULL without memory */
void mr__functions_destroy(mr__functions_t *f);

/* Writes the name of the function that holds the instruction before `pc`, a return address, to
   name[0,n): that which its object exports, else that of the object's table of symbols, else
   "FILE+0x1234".  A NULL f knows the exported ones alone. */
void mr__function_at(mr__functions_t *f, const void *pc, char *name, size_t n);

#endif
