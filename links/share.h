/* Descriptors between two processes of one host: a stream socket in the abstract namespace, which
   leaves no file behind, shown a secret and given the descriptors of pools. */
#ifndef MR_LINKS_SHARE_H
#define MR_LINKS_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Receiving end: a socket to the sharing end that wrote this token and belongs to the same user;
   -1: it does not share, or cannot be reached. */
int mr__share_connect(const char *token);

/* The next descriptor that came, the caller's; false: none now. */
bool mr__share_take(int socket, uint32_t *pool, int *fd);

/* Maps memory for reading, if it is sealed against shrinking (else its owner could fault us).
   NULL: it is not, or cannot be mapped. */
char *mr__share_map(int fd, size_t *bytes);

#endif
