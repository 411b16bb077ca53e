// Exercise 15, solved.
#pragma once

// Even ranks send to odd ones, then the other way round. When N is odd, the last rank and rank 0 both
// send first, so that one send is late, and three in a row are needed.
inline bool sends_first(int rank, int) { return rank % 2 == 0; }
