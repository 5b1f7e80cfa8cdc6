#include "frontend/check/check.h"

void check_unit(Unit *u, CheckOptions opt, DiagSink *sink)
{
}
