// What Python has to know of the kernels: module.cpp exports every number here, under its name in capitals.
#pragma once

#include <cstdint>

namespace sparsefinder {

// Numbers that are taken at a time: sizes of queries, keys and values are multiples of it.
constexpr int kLanes = 8;
// Stands for "no score": below every real one, and still finite, so that differences are never NaN.
constexpr float kNothing = -3e38f;
// Queries and keys of a call at the most: keys and places in a row are counted in 32 bits.
constexpr int64_t kMostKeys = int64_t{1} << 30;
// Up to so many queries of a key head are decoded: packing a key costs about as much as looking at it so many times.
constexpr int64_t kFewQueries = 8;
// Where fewer keys are to be ruled out by the screen, looking at all of them is as fast.
constexpr int64_t kLeastScreened = 768;
// Nearest centroids of a token that are found at the most.
constexpr int kMostNearest = 16;
// Centroids that share what is read of the tokens: they come in multiples of it.
constexpr int kCentroidsTogether = 4;
// Codes: whole numbers of keys and of queries at the most, and how long keys and, before rounding, queries are at the
// most. As 181 · (175 + √128 / 2) < 2^15, products of up to 128 of them stay within 16 bits.
constexpr int kMostKeyCode = 127, kMostQueryCode = 63, kLongestKey = 181, kLongestQuery = 175, kMostCodes = 128;
// Taken off a number of keys before it is rounded up: 0.1 · 30 keys is 3, not the 4 of its rounding error.
constexpr double kShareRounding = 1e-6;

}  // namespace sparsefinder
