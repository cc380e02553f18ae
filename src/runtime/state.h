// SPDX-License-Identifier: Apache-2.0
// The state of a model that is run on one piece of a stream after the other: outputs of a run that are inputs of the
// next. A session keeps it where it lies, in two buffers that change places, and copies nothing. A cache to which a
// plan appends is one buffer, in which the new rows alone are written (plan/shared_places.h).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace temper {

class Engine;

struct StateBinding {
  std::string input, output;
};

// "INPUT=OUTPUT", as --state has it, of these names, which may hold '=' too. Throws Error{usage} for others.
StateBinding parse_state(std::string_view text, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs);
std::vector<StateBinding> parse_states(const std::vector<std::string>& texts, const Engine& engine);

// One binding of a session.
struct State {
  size_t input = 0, output = 0;  // their places in the engine's order
  bool begun = false;            // it has a value: given, or of a run; before that it is zeros of a shape to be found
  Dims dims;                     // of the value
  Tensor now, next;              // in the host's memory
  // Instead, on a device with memory of its own, where a plan runs: the value, and where the next run writes.
  std::shared_ptr<void> there, next_there;
  int64_t there_bytes = 0, next_there_bytes = 0;
  bool resident = false;  // the value is there, and not in `now`
  bool stays = false;     // of the run at hand: it is read and written in one place
};

// Throws Error{usage} for an unknown name, for one that is bound twice, and where an output's dtype, rank or fixed
// dimensions are not its input's.
std::vector<State> states_of(const std::vector<StateBinding>& bindings, const Engine& engine);

// Shapes of the first values of those that have not begun and are not `given` (by input): as the engine fixes them;
// open dimensions as other inputs have them, then as the engine is tuned. Throws Error{usage} where that leaves one
// open.
void add_first_shapes(const std::vector<State>& states, const std::vector<char>& given, const Engine& engine,
                      std::vector<Dims>& shapes);

}  // namespace temper
