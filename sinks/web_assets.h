/* The files of the live page, compiled in; sinks/room.cmake generates the table. */
#ifndef MR_SINKS_WEB_ASSETS_H
#define MR_SINKS_WEB_ASSETS_H

#include <stddef.h>

typedef struct mr_web_asset {
  const char *path, *type;
  const unsigned char *data;
  size_t n;
} mr_web_asset_t;

extern const mr_web_asset_t mr_web_assets[]; /* static; ends at a NULL path */

#endif
