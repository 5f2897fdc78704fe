#include "model/engine.h"

#include "model/model.h"
#include "model/observer.h"

namespace cpu_model {

Api* the_api = nullptr;
static Model* the_model = nullptr;
static Observer* the_observer = nullptr;

Engine& TheEngine() {
  static Engine engine;
  return engine;
}

Model& TheModel() { return *the_model; }

void SetModel(Model* model) { the_api = the_model = model; }

Observer& TheObserver() { return *the_observer; }

void SetObserver(Observer* observer) { the_observer = observer; }

bool Engine::AnyRunning() const {
  for (const auto& core : cores) {
    if (core->running) return true;
  }
  return false;
}

}  // namespace cpu_model
