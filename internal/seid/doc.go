// Package seid holds what the operator knows of the node's binary: where its
// files are, what its keys and its signing state look like, how its RPC and its
// metrics answer, what it writes when it halts, and how it is configured.
//
// It was written against releases v6.5 and v6.6 of seid. Whatever can be decided
// from bytes takes bytes; the few functions that touch the disk say so by taking
// a path or a Home.
package seid
