(defpackage "TOUR-BANK"
  (:use "CL")
  (:export "ACCOUNT" "OWNER" "BALANCE" "DEPOSIT" "WITHDRAW" "TRANSFER" "STATEMENT"
           "WRITE-STATEMENT" "*ANN*" "*BOB*"))
