/* Passes descriptors between two processes of one host: a stream socket in the abstract namespace,
   which leaves no file behind; the peer shows a secret and gets the descriptors of pools. */
#ifndef MR_LINKS_SHARE_H
#define MR_LINKS_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Receiving end: connects to the sharing end that wrote this token and belongs to the same user.
   Returns a socket, which the caller closes; -1 if the peer does not share or cannot be reached. */
int mr__share_connect(const char *token);

/* Takes the next descriptor, which the caller closes, and the number of its pool; false if none has
   come. */
bool mr__share_take(int socket, uint32_t *pool, int *fd);

/* Maps a pool's memory for reading; the caller unmaps it with munmap(.., *bytes).  NULL if it
   cannot be mapped or is not sealed against shrinking, so that its owner could make reads fault. */
char *mr__share_map(int fd, size_t *bytes);

#endif
