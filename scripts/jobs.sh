#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Prints how many compilers may run at once: one per processor, and one per GiB of free memory.

processors=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo 2>/dev/null)
jobs=$processors
if [ -n "$memory" ] && [ $((memory / 1048576)) -lt "$jobs" ]; then
  jobs=$((memory / 1048576))
fi
[ "$jobs" -ge 1 ] || jobs=1
echo "$jobs"
