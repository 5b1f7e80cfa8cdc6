/* depth.h - how deep the walks of names and types follow a tree; what is deeper has been reported as E0290. */
#ifndef TSR_FRONTEND_DEPTH_H
#define TSR_FRONTEND_DEPTH_H

enum { WALK_DEPTH = 4000 };

#endif
