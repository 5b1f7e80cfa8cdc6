/* depth.h - how deep the walks of names follow a tree: deeper than any that the parser lets through. */
#ifndef TSR_FRONTEND_DEPTH_H
#define TSR_FRONTEND_DEPTH_H

enum { WALK_DEPTH = 4000 };

#endif
