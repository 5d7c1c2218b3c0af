;;; agent-q-debugger-frames-test.el --- Frames of live stacks  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the tools do with the frames of parked errors and of the user's own
;; debuggers, on real SLIME and SLY: a debugger stays, whatever a form in a
;; frame does; frames have their packages and places; a stack is left by one.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-image-history)

(defconst agent-q-debugger-frames-test-source
  "(defpackage :aq-shop (:use :cl))
(in-package :aq-shop)
(defclass item () ((price :initarg :price :initform 2 :accessor price)))
(defgeneric total (item))
(defmethod total ((item item))
  (let ((tax 3))
    (list (+ tax
             (price item)))))
(defmethod (setf price) :after (value (item item))
  (declare (optimize (debug 2)))
  (when (eql value :bad) (error \"after ~a\" item)))
(defmacro twice (x) (list (error \"expanding ~a\" x)))
(defun with-inner (x)
  (declare (optimize (debug 2)))
  (flet ((inner (y) (declare (optimize (debug 2))) (list (error \"inner ~a\" y))))
    (declare (notinline inner))
    (list (inner x))))
(defun audit (x) (sort x #'> :key #'car))
(defstruct shy)
(defmethod print-object ((shy shy) stream) (warn \"shy\") (write-string \"#<shy>\" stream))
(defun throwing (x &aux (shy (make-shy)))
  (declare (optimize (debug 2)))
  (list :threw
        (catch :done
          (handler-bind ((condition (lambda (c) (declare (ignore c)) (throw :done :thrown))))
            (let ((*break-on-signals* t))
              (with-simple-restart (go-on \"Go on.\")
                (invoke-debugger (make-condition 'simple-error :format-control \"stop\"))))
            (list x shy)))))
;; Otherwise SBCL knows for good that it never returns.
(declaim (notinline helper))
(defun helper (x) (error \"no help for ~a\" x))
(defun worker (x)
  (declare (optimize (debug 2)))
  (list :worked (helper x)))
(defun fast (x)
  (declare (optimize (debug 0)))
  (list (funcall (read-from-string \"error\") \"fast ~a\" x)))
"
  "What the tests debug; what stands in which line matters.")

(defvar agent-q-debugger-frames-test--there nil
  "The processes behind which the source is loaded, with its file.")

(defun agent-q-debugger-frames-test-file (connection)
  "Return the file of the source, which is compiled and loaded over CONNECTION."
  (let ((process (agent-q-connection-process connection)))
    (or (cdr (assq process agent-q-debugger-frames-test--there))
        (let ((file (make-temp-file (expand-file-name "aq-shop" agent-q-test-directory) nil ".lisp"
                                    agent-q-debugger-frames-test-source)))
          (agent-q-test-image-load connection file)
          (push (cons process file) agent-q-debugger-frames-test--there)
          file))))

(defun agent-q-debugger-frames-test-park (connection form)
  "Park FORM, of the source, over CONNECTION; return the debugger's name and the report."
  (agent-q-debugger-frames-test-file connection)
  (let ((told (agent-q-test-tools-ask
               (concat "/eval_form on_error=park package=aq-shop " form))))
    (should (string-match "parked as debugger \\(d[0-9]+\\)" told))
    (should-not (agent-q-test-image-debugged))
    (cons (match-string 1 told) told)))

(defun agent-q-debugger-frames-test-in (name form &optional frame)
  "Return what FORM gives in FRAME of the debugger NAME, the innermost without it."
  (agent-q-test-tools-ask
   (format "/eval_in_frame debugger=%s %s form=%S" name
           (if frame (format "frame=%s" frame) "") form)))

(defun agent-q-debugger-frames-test-number (frames text)
  "Return the number that FRAMES, an answer, gives the first frame with TEXT."
  (should (string-match (concat "^  \\([0-9]+\\): .*" (regexp-quote text)) frames))
  (match-string 1 frames))

(defun agent-q-debugger-frames-test-give-up (name)
  "Leave the debugger NAME."
  (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" name))
  (agent-q-test-until (null (agent-q-image-park-list))))

(defun agent-q-debugger-frames-test-misbehave (name)
  "Try in the debugger NAME, which a program's handlers surround, all that may end it."
  (pcase-dolist (`(,form . ,told)
                 '(("(error \"zap\")" . "\\`Error SIMPLE-ERROR: zap$")
                   ("(no-such-function x)" . "\\`Error UNDEFINED-FUNCTION")
                   ("(progn (warn \"careful\") x)" . "\\`=> 5\nOutput:\nWARNING: careful")
                   ("(signal 'error)" . "\\`=> NIL\\'")
                   ("(ignore-errors (error \"own\"))" . "\\`=> NIL\n")
                   ("(handler-case (error \"own\") (error () :mine))" . "\\`=> :MINE\\'")
                   ("(make-shy)" . "\\`=> #<shy>")
                   ("(throw :done 1)" . "tried to leave the debugger.*invoke_restart")
                   ("(abort)" . "tried to leave the debugger")
                   ("(unwind-protect (invoke-restart 'abort) (setf x 6))" . "tried to leave")
                   ("(progn (setf x 5) (break \"look\"))" . "\\`Error SIMPLE-CONDITION: look$")
                   ("(labels ((f (y) (1+ (f y)))) (f 1))" . "exhausted")
                   ("(read-from-string \")\")" . "\\`Error .*READER-ERROR")))
    (should (string-match-p told (agent-q-debugger-frames-test-in name form))))
  (let ((agent-q-eval-timeout 0.5))
    (should (string-match-p "Stopped before finishing"
                            (agent-q-debugger-frames-test-in name "(loop)"))))
  (let ((frames (agent-q-test-tools-ask (format "/debugger_frames debugger=%s locals=true" name))))
    (should (string-match-p "^       SHY = #<shy> \\[v[0-9]+\\]$" frames)))
  (should (string-match-p "tried to leave"
                          (agent-q-test-tools-ask
                           (format "/return_from_frame debugger=%s frame=%s values=\"(throw :done 1)\""
                                   name
                                   (agent-q-debugger-frames-test-number
                                    (agent-q-test-tools-ask (format "/debugger_frames %s" name))
                                    "AQ-SHOP::THROWING")))))
  (should (equal "=> 5" (agent-q-debugger-frames-test-in name "x"))))

(agent-q-test-tools-on-each debugger-shows-variables-with-names ()
  "Of a frame with many variables the last are named, and those of the compiler are left out."
  (agent-q-test-image-directly
   connection
   (format "(defun aq-many (&key ((:seen *print-base*) *print-base*) (deep (list 1)))
              (declare (optimize (debug 3)))
              (let (%s) (cerror \"Go on.\" \"many\") (list deep %s)))"
           (mapconcat (lambda (i) (format "(v%d (list %d deep))" i i)) (number-sequence 1 24) " ")
           (mapconcat (lambda (i) (format "v%d" i)) (number-sequence 1 24) " ")))
  (let ((told (agent-q-test-tools-ask "/eval_form on_error=park (aq-many)")))
    (should (string-match "parked as debugger \\(d[0-9]+\\)" told))
    (let* ((name (match-string 1 told))
           (frames (agent-q-test-tools-ask (format "/debugger_frames locals=true limit=2 %s" name))))
      (should (string-match-p "^       V12 = (12 (1))$" frames))
      (should (string-match-p "^       [0-9]+ more = .*V[0-9]+" frames))
      (should-not (string-match-p "SUPPLIED\\|DEFAULTING" frames))
      (agent-q-debugger-frames-test-give-up name))))

(agent-q-test-tools-on-each debugger-stays ()
  "Whatever a form in a frame does, no handler of the program's ends the debugger."
  (let ((name (car (agent-q-debugger-frames-test-park connection "(throwing 5)"))))
    (agent-q-debugger-frames-test-misbehave name)
    (should (string-match-p (concat "^" name ", yours: SIMPLE-ERROR: stop")
                            (agent-q-test-tools-ask "/list_debuggers")))
    (agent-q-debugger-frames-test-give-up name)))

(defun agent-q-debugger-frames-test--thread-error (connection form name)
  "Have a thread called NAME meet an error in FORM over CONNECTION.
Return what tools call the user's debugger."
  (agent-q-debugger-frames-test-file connection)
  (agent-q-test-image-directly
   connection
   (format "(progn (defparameter cl-user::*aq-thread*
                     (sb-thread:make-thread (lambda () %s) :name %S))
                   nil)"
           form name))
  (agent-q-debugger-buffer-name (car (agent-q-test-until (agent-q-test-image-debuggers)))))

(defun agent-q-debugger-frames-test--joined (connection)
  "Return the printed value of the thread that met an error over CONNECTION."
  (agent-q-test-until (not (agent-q-test-image-debuggers)))
  (car (agent-q-test-image-values connection "(sb-thread:join-thread *aq-thread* :default :killed)")))

(agent-q-test-tools-on-each debugger-of-the-user-stays ()
  "The same in the user's debugger, whose thread goes on where the user wants."
  (save-window-excursion
    (let ((name (agent-q-debugger-frames-test--thread-error
                 connection "(aq-shop::throwing 5)" "aq thrower")))
      (agent-q-debugger-frames-test-misbehave name)
      (should (= 1 (length (agent-q-test-image-debuggers))))
      (agent-q-test-tools-ask
       (format "/return_from_frame debugger=%s frame=%s values=\"(list :given x)\"" name
               (agent-q-debugger-frames-test-number
                (agent-q-test-tools-ask (format "/debugger_frames %s" name))
                "AQ-SHOP::THROWING")))
      (should (equal "(:GIVEN 5)" (agent-q-debugger-frames-test--joined connection))))))

(agent-q-test-tools-on-each debugger-deep-stack-stays ()
  "Where the stack is exhausted already, forms are evaluated, and their errors are told."
  (let ((name (car (agent-q-debugger-frames-test-park
                    connection "(labels ((down (x) (declare (optimize (debug 2))) (list (down (1+ x)))))
                                  (down 1))"))))
    (should (equal "=> 2" (agent-q-debugger-frames-test-in name "(1+ 1)")))
    (should (string-match-p "\\`Error SIMPLE-ERROR: more"
                            (agent-q-debugger-frames-test-in name "(error \"more\")")))
    (agent-q-debugger-frames-test-give-up name))
  ;; SBCL gives its stack to other threads.
  (dotimes (_ 3)
    (should (string-match-p "exhausted"
                            (agent-q-test-tools-ask
                             "/eval_form (labels ((f (y) (1+ (f y)))) (f 1))")))))

(agent-q-test-tools-on-each debugger-frames-packages-and-places ()
  "Forms are read in the package of what the frame calls; frames tell their places."
  (let ((file (agent-q-debugger-frames-test-file connection)))
    (pcase-dolist (`(,form ,frame ,line)
                   '(("(total (make-instance 'item :price \\\"x\\\"))" ":METHOD AQ-SHOP::TOTAL" 7)
                     ("(setf (price (make-instance 'item)) :bad)"
                      "(:METHOD (SETF AQ-SHOP::PRICE) :AFTER" 11)
                     ("(macroexpand '(twice 1))" "(MACRO-FUNCTION AQ-SHOP::TWICE)" 12)
                     ("(with-inner 1)" "(FLET AQ-SHOP::INNER" 15)))
      (pcase-let* ((`(,name . ,report)
                    (agent-q-debugger-frames-test-park connection (format "form=\"%s\"" form)))
                   (frames (agent-q-test-tools-ask "/debugger_frames"))
                   (place (format "%s.*  \\[%s:%d\\]$" (regexp-quote frame)
                                  (regexp-quote file) line)))
        (should (string-match-p place report))
        (should (string-match-p place frames))
        (should (string-match-p (format "^Next, with debugger %s: call_tool eval_in_frame" name) frames))
        (should (equal "=> FORM" (agent-q-debugger-frames-test-in
                                  name "'form" (agent-q-debugger-frames-test-number frames frame))))
        (should (string-match-p
                 "There is no frame 99. The .*frames? \\(is\\|are\\) [0-9, to]+; debugger_frames"
                 (agent-q-debugger-frames-test-in name "1" 99)))
        (agent-q-debugger-frames-test-give-up name)))
    ;; A line of what is not there any more is told as such.
    (set-file-times file (time-add nil 100))
    (should (string-match-p (format "\\[%s:[0-9]+, changed since it was compiled\\]$"
                                    (regexp-quote file))
                            (agent-q-test-tools-ask "/eval_form (aq-shop::worker 1)")))
    (set-file-times file (time-subtract nil 100))))

(agent-q-test-tools-on-each debugger-frames-of-the-implementation ()
  "What the implementation did last is told, however the program called it."
  (agent-q-debugger-frames-test-file connection)
  (let ((told (agent-q-test-tools-ask "/eval_form (aq-shop::audit (list (list 'a) (list 'b)))")))
    (should (string-match-p "^  (SB-IMPL::STABLE-SORT-LIST ((A) (B)) #<FUNCTION .*> #<FUNCTION CAR>)" told))
    (should-not (string-match-p "EVAL\\|S\\(WANK\\|LYNK\\)\\|AGENT-Q" told))))

(agent-q-test-tools-on-each debugger-restart-frame ()
  "A function is called again as it is defined now, or returns what the agent says."
  (let* ((name (car (agent-q-debugger-frames-test-park connection "(list :first (worker 0))")))
         (frames (agent-q-test-tools-ask (format "/debugger_frames %s" name)))
         (worker (agent-q-debugger-frames-test-number frames "(AQ-SHOP::WORKER 0)")))
    ;; It meets the same error, and parks again.
    (should (string-match-p (format "\\`Error SIMPLE-ERROR: no help for 0\n\\(.*\n\\)*.*parked as debugger %s:" name)
                            (agent-q-test-tools-ask
                             (format "/restart_frame debugger=%s frame=%s" name worker))))
    (agent-q-test-tools-ask "/compile_form package=aq-shop (defun helper (x) (list :helped x))")
    (should (equal "=> (:FIRST (:WORKED (:HELPED 0)))"
                   (agent-q-test-tools-ask
                    (format "/restart_frame debugger=%s frame=%s" name worker))))
    (agent-q-test-until (null (agent-q-image-park-list)))
    (agent-q-test-tools-ask "/compile_form package=aq-shop (defun helper (x) (error \"no help for ~a\" x))"))
  (let* ((name (car (agent-q-debugger-frames-test-park connection "(list :second (worker 1))")))
         (worker (agent-q-debugger-frames-test-number
                  (agent-q-test-tools-ask (format "/debugger_frames %s" name))
                  "(AQ-SHOP::WORKER 1)")))
    (should (string-match-p "\\`Error SIMPLE-ERROR: not this"
                            (agent-q-test-tools-ask
                             (format "/return_from_frame debugger=%s frame=%s values=\"(error \\\"not this\\\")\"" name worker))))
    (should (equal "=> (:SECOND (1 FORM))"
                   (agent-q-test-tools-ask
                    (format "/return_from_frame debugger=%s frame=%s values=\"(list x 'form)\"" name worker))))
    (agent-q-test-until (null (agent-q-image-park-list)))))

(agent-q-test-tools-on-each debugger-frames-that-cannot-be-left ()
  "A frame that keeps too little says so, and the debugger stays."
  (let* ((name (car (agent-q-debugger-frames-test-park connection "(fast 1)")))
         (frames (agent-q-test-tools-ask (format "/debugger_frames %s" name)))
         (fast (agent-q-debugger-frames-test-number frames "AQ-SHOP::FAST")))
    (should (string-match-p "eval_in_frame with a frame's number, or invoke_restart\\. No frame can be called again or left\\."
                            frames))
    (should (string-match-p "can't be left by restart_frame: .*(debug 0)"
                            (agent-q-test-tools-ask
                             (format "/restart_frame debugger=%s frame=%s" name fast))))
    (should (string-match-p "can't be left by return_from_frame"
                            (agent-q-test-tools-ask
                             (format "/return_from_frame debugger=%s frame=%s values=1" name fast))))
    (should (string-match-p "There is no frame 99"
                            (agent-q-test-tools-ask
                             (format "/restart_frame debugger=%s frame=99" name))))
    (agent-q-debugger-frames-test-give-up name)))

(agent-q-test-tools-on-each debugger-restart-frame-of-a-method ()
  "A method's frame is called again with the method as it is now, and what comes behind it."
  (agent-q-debugger-frames-test-file connection)
  (dolist (form '("(defmethod weigh ((x number)) (list :number x))"
                  "(defmethod weigh ((x (eql 3))) (declare (optimize (debug 2))) (list (cerror \"On.\" \"no weight\") x (call-next-method)))"
                  "(defmethod weigh :around ((x number)) (list :around (call-next-method)))"
                  "(defmethod (setf weigh) (new (x integer) &key unit) (declare (optimize (debug 2))) (list (cerror \"On.\" \"no ~a ~a\" new unit) x))"))
    (agent-q-test-tools-ask (concat "/compile_form package=aq-shop " form)))
  (let* ((name (car (agent-q-debugger-frames-test-park connection "(list :first (weigh 3))")))
         (frame (agent-q-debugger-frames-test-number
                 (agent-q-test-tools-ask (format "/debugger_frames %s" name))
                 "((:METHOD AQ-SHOP::WEIGH ((EQL 3)))")))
    (agent-q-test-tools-ask
     "/compile_form package=aq-shop (defmethod weigh ((x (eql 3))) (list :three (call-next-method)))")
    (should (equal "=> (:FIRST (:AROUND (:THREE (:NUMBER 3))))"
                   (agent-q-test-tools-ask
                    (format "/restart_frame debugger=%s frame=%s" name frame)))))
  (let* ((name (car (agent-q-debugger-frames-test-park
                     connection "(list :second (setf (weigh 4 :unit :kg) 5))")))
         (frame (agent-q-debugger-frames-test-number
                 (agent-q-test-tools-ask (format "/debugger_frames %s" name))
                 "((:METHOD (SETF AQ-SHOP::WEIGH) (T INTEGER))")))
    (agent-q-test-tools-ask
     "/compile_form package=aq-shop (defmethod (setf weigh) (new (x integer) &key unit) (list new x unit))")
    (should (equal "=> (:SECOND (5 4 :KG))"
                   (agent-q-test-tools-ask
                    (format "/restart_frame debugger=%s frame=%s" name frame)))))
  (let* ((name (car (agent-q-debugger-frames-test-park
                     connection "(progn (defmethod weigh ((x string)) (declare (optimize (debug 2))) (list (cerror \"On.\" \"none\") x)) (weigh \"a\"))")))
         (frame (agent-q-debugger-frames-test-number
                 (agent-q-test-tools-ask (format "/debugger_frames %s" name))
                 "((:METHOD AQ-SHOP::WEIGH (STRING))")))
    (agent-q-test-tools-ask "/eval_form package=aq-shop (remove-method #'weigh (find-method #'weigh () (list (find-class 'string))))")
    (should (string-match-p "is a call of a method that AQ-SHOP::WEIGH no longer has"
                            (agent-q-test-tools-ask
                             (format "/restart_frame debugger=%s frame=%s" name frame))))
    (agent-q-debugger-frames-test-give-up name)))

(agent-q-test-tools-on-each debugger-of-a-thread ()
  "An error of a thread of the program's says so, with its places; its frame can be restarted."
  (agent-q-image-history-record-start)
  (save-window-excursion
    (unwind-protect
        (let* ((name (agent-q-debugger-frames-test--thread-error
                      connection "(aq-shop::worker 7)" "aq worker 7"))
               (file (agent-q-debugger-frames-test-file connection))
               (place (format "(AQ-SHOP::WORKER 7)  \\[%s:[0-9]+\\]$" (regexp-quote file))))
          (should (string-match-p (format "^%s, the user's, level 1: SIMPLE-ERROR: no help for 7\n  in the thread aq worker 7$" name)
                                  (agent-q-test-tools-ask "/list_debuggers")))
          (should (string-match-p place (agent-q-test-tools-ask "/debugger_frames")))
          (let ((told (agent-q-test-tools-ask "/get_last_error")))
            (should (string-match-p "\\`Signalled in the thread aq worker 7, " told))
            (should (string-match-p place told)))
          (agent-q-test-image-eval
           connection "(defun aq-shop::helper (x) (list :helped x))")
          (with-current-buffer chat
            (agent-q-test-send
             (format "/restart_frame debugger=%s frame=%s" name
                     (agent-q-debugger-frames-test-number
                      (agent-q-test-tools-ask "/debugger_frames") "(AQ-SHOP::WORKER 7)")))
            (agent-q-test-until (agent-q-call-waiting))
            (should (string-match-p "leaves your open debugger" (agent-q-test-log)))
            (agent-q-test-answer "y")
            (agent-q-test-until (agent-q-test-idle-p))
            (should (string-match-p "\\`The user's debugger was left" (agent-q-test-tools-answer))))
          (should (equal "(:WORKED (:HELPED 7))"
                         (agent-q-debugger-frames-test--joined connection)))
          (agent-q-test-image-eval
           connection "(defun aq-shop::helper (x) (error \"no help for ~a\" x))"))
      (agent-q-image-history-record-stop))))

(agent-q-test-tools-on-each debugger-without-a-name ()
  "Without a name it is the only debugger, or the list of those that there are."
  (should (string-match-p "\\`No debugger is open" (agent-q-test-tools-ask "/debugger_frames")))
  (let ((one (car (agent-q-debugger-frames-test-park connection "(worker 1)"))))
    (should (string-match-p "\\`SIMPLE-ERROR: no help for 1\n"
                            (agent-q-test-tools-ask "/debugger_frames")))
    (let ((other (car (agent-q-debugger-frames-test-park connection "(worker 2)"))))
      (should (string-match-p (format "\\`Open:\n%s, yours:\\(.*\n\\)*%s, yours:" one other)
                              (agent-q-test-tools-ask "/debugger_frames")))
      (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" other)))
    (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" one))
    (agent-q-test-until (null (agent-q-image-park-list)))))

(provide 'agent-q-debugger-frames-test)
;;; agent-q-debugger-frames-test.el ends here
