package serverfence_test

const trialVariable = "FENCE_TRIAL"

func runTrialProcess() int { return 0 }
