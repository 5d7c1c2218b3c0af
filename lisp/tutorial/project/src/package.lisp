;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage "TOUR-BANK"
  (:use "CL")
  (:export "ACCOUNT" "OWNER" "BALANCE" "DEPOSIT" "WITHDRAW" "TRANSFER" "STATEMENT"
           "WRITE-STATEMENT" "*ANN*" "*BOB*"))
