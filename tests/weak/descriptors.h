/* Is included before wait.c beside atomics.h: its event descriptors and poll become calls of
   weak.h. */
#ifndef MR_TESTS_WEAK_DESCRIPTORS_H
#define MR_TESTS_WEAK_DESCRIPTORS_H

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/weak/atomics.h"

#define eventfd(value, flags) weak_event()
#define write(fd, from, bytes) (weak_event_write(fd), (ssize_t)(bytes))
#define read(fd, to, bytes) (weak_event_read(fd) ? (ssize_t)(bytes) : (ssize_t)-1)
#define close(fd) ((void)(fd))
#define poll(fd, n, ms) weak_poll((fd), (int)(n), (ms) >= 0)

#endif
