print("bill: later")
