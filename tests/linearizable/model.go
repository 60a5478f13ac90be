package main

// What one key does, as a sequential machine: the rules that every history is held against.
// The words of operations are those that tests/cluster_history.py writes.

import (
	"hash/maphash"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// The value of a key; the zero value is an absent key.
type state struct {
	isThere bool
	value   string
	// How many operations of each class have been placed.
	placed [classesMax]uint16
}

// Operations that nobody knows of and that differ in nothing but when they were called form a class.
// Whichever of them happen, it may as well be those called first, in that order: so the search
// places them by rank, and does not try the same with each of them in turn. Class 0 is no class.
const classesMax = 8

// What was asked.
type input struct {
	op string
	// The value given, and for `cas` the one expected.
	value    string
	expected state
	class    int
	rank     uint16
}

// What was answered.
type output struct {
	// Nobody knows the answer, nor whether anything happened.
	isUnknown bool
	// For `get` and `swap` what was there; for `incr` the number answered.
	value state
	// For `setnx` and `del`: whether something was done.
	isDone bool
}

var seed = maphash.MakeSeed()

var machine = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(before, in, out interface{}) (bool, interface{}) {
		return place(before.(state), in.(input), out.(output))
	},
	Equal: func(a, b interface{}) bool { return a.(state) == b.(state) },
	Hash:  func(s interface{}) uint64 { return maphash.String(seed, s.(state).value) },
}

func place(before state, in input, out output) (bool, interface{}) {
	if in.class > 0 && before.placed[in.class] != in.rank {
		return false, before
	}
	placed := before.placed
	before.placed = [classesMax]uint16{}
	after, isRight := step(before, in, out)
	after.placed = placed
	if in.class > 0 {
		after.placed[in.class]++
	}
	return isRight, after
}

// The key after an operation, and whether the answer fits the key before it.
func step(key state, in input, out output) (state, bool) {
	given := state{isThere: true, value: in.value}
	switch in.op {
	case "get":
		return key, out.isUnknown || out.value == key
	case "set":
		return given, true
	case "swap":
		return given, out.isUnknown || out.value == key
	case "setnx":
		isRight := out.isUnknown || out.isDone == !key.isThere
		if key.isThere {
			return key, isRight
		}
		return given, isRight
	case "del":
		return state{}, out.isUnknown || out.isDone == key.isThere
	case "cas":
		// Only those that succeeded are in a history, and those that nobody knows of.
		if key == in.expected {
			return given, true
		}
		return key, out.isUnknown
	case "incr":
		number := int64(0)
		if key.isThere {
			var err error
			if number, err = strconv.ParseInt(key.value, 10, 64); err != nil {
				return key, out.isUnknown
			}
		}
		next := state{isThere: true, value: strconv.FormatInt(number+1, 10)}
		return next, out.isUnknown || out.value == next
	}
	panic("an operation that the reader let through: " + in.op)
}
