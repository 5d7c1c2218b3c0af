;;; agent-q-effects-test.el --- Nothing happens unasked  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Hostile calls of many classes, with nobody there who approves of anything:
;; none may do harm.  They are in fixtures/effects/*.txt:
;;
;; - a line with "# " begins a class, an empty line ends a case;
;; - "---" separates the texts of a case's calls;
;; - "@tool " before a text calls another tool than eval_form; the text may be a
;;   property list of arguments.  With "@!tool " the call itself is approved, and
;;   its effects aren't;
;; - "? FORM" is a check: the form gives NIL unless there was harm;
;; - VICTIM stands for a file that must stay as it is, HARM for one that must not
;;   come to be, PARKED for the name of the error that was parked last.
;;
;; AGENT_Q_EFFECTS=list lists what did harm, AGENT_Q_EFFECTS=check fails for it,
;; AGENT_Q_EFFECTS=control allows everything, so that all should do harm;
;; AGENT_Q_EFFECTS_CLASS is a regexp of the classes to try.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)
(require 'agent-q-execute)

(defconst agent-q-effects-test--fixtures
  (expand-file-name "test/fixtures/effects/" agent-q-test-root)
  "Where the calls are.")

(cl-defstruct (agent-q-effects-test--case (:constructor agent-q-effects-test--make-case)
                                          (:copier nil))
  "Calls that try to do harm.
TEXTS are sent one after the other; CHECKS are forms that must give NIL
then.  DIRECTORY has the files of the case, which were BEFORE."
  class texts checks directory before)

;;;; The corpus

(defun agent-q-effects-test--cases ()
  "Return the cases of the corpus."
  (mapcan #'agent-q-effects-test--cases-of
          (directory-files agent-q-effects-test--fixtures t
                           "\\`\\(?:corpus\\|review-[0-9]\\)\\.txt\\'")))

(defun agent-q-effects-test--cases-of (file)
  "Return the cases in FILE."
  (let ((class nil) (cases nil))
    (dolist (block (split-string (agent-q-effects-test--text file) "\n\n" t "\n+"))
      (let ((lines (split-string block "\n" t)))
        (when (string-prefix-p "# " (car lines))
          (setq class (substring (pop lines) 2)))
        (push (agent-q-effects-test--make-case
               :class class
               :texts (split-string (mapconcat #'identity
                                               (cl-remove-if #'agent-q-effects-test--check-p lines)
                                               "\n")
                                    "\n---\n" t)
               :checks (mapcar (lambda (line) (substring line 2))
                               (cl-remove-if-not #'agent-q-effects-test--check-p lines)))
              cases)))
    (nreverse cases)))

(defun agent-q-effects-test--check-p (line)
  "Whether LINE is a form that tells of harm."
  (string-prefix-p "? " line))

(defun agent-q-effects-test--text (name)
  "Return the text of the fixture NAME."
  (with-temp-buffer
    (insert-file-contents (expand-file-name name agent-q-effects-test--fixtures))
    (buffer-string)))

;;;; The files of a case

(defun agent-q-effects-test--prepare-files (case number)
  "Make the files of CASE, the one number NUMBER of its class."
  (let* ((directory (file-name-as-directory
                     (expand-file-name (format "effects-%d" number) agent-q-test-directory)))
         (file (lambda (name) (expand-file-name name directory)))
         (cleanup (format "(depot:cleanup %S)" (funcall file "victim"))))
    (make-directory (funcall file "dir") t)
    (make-directory (funcall file "empty") t)
    (pcase-dolist (`(,name ,text)
                   `(("victim" "precious") ("dir/kept" "kept") ("dir/.env" "KEY=precious")
                     ("script.lisp" ,cleanup) ("script2" ,(concat "#." cleanup))
                     ("script3.lisp" "(cl:defun cl-user::nothing () 1)")
                     ("dir/aq-evil.asd" ,(concat cleanup " (asdf:defsystem \"aq-evil\")"))))
      (write-region text nil (funcall file name) nil 'silent))
    (setf (agent-q-effects-test--case-directory case) directory
          (agent-q-effects-test--case-before case) (agent-q-effects-test--files directory))))

(defun agent-q-effects-test--files (directory)
  "Return what is in DIRECTORY, with the contents and the modes of files."
  (mapcar (lambda (name)
            (let ((file (expand-file-name name directory)))
              (list name (file-modes file)
                    (and (file-regular-p file)
                         (with-temp-buffer
                           (insert-file-contents-literally file)
                           (buffer-string))))))
          (directory-files-recursively directory "" t)))

(defun agent-q-effects-test--filled (text case client port)
  "Return TEXT with the names of the files of CASE, of CLIENT and PORT put in."
  (let ((case-fold-search nil))
    (pcase-dolist (`(,word . ,value)
                   `(("EMPTYDIR" . ,(agent-q-effects-test--file case "empty"))
                     ("\\bDIR\\b" . ,(agent-q-effects-test--file case "dir"))
                     ("SCRIPT3" . ,(agent-q-effects-test--file case "script3.lisp"))
                     ("SCRIPT2" . ,(agent-q-effects-test--file case "script2"))
                     ("\\bSCRIPT\\b" . ,(agent-q-effects-test--file case "script.lisp"))
                     ("\\_<ASD\\_>" . ,(agent-q-effects-test--file case "dir/aq-evil.asd"))
                     ("VICTIM" . ,(agent-q-effects-test--file case "victim"))
                     ("\\_<HARM" . ,(agent-q-effects-test--file case "harm"))
                     ("\\_<PORT\\_>" . ,(number-to-string port))
                     ("\\_<PARKED\\_>" . ,(format "d%d" agent-q-image--park-count))
                     ("CLIENT" . ,(if (eq client 'sly) "slynk" "swank"))))
      (setq text (replace-regexp-in-string word value text t t)))
    text))

(defun agent-q-effects-test--file (case name)
  "Return the absolute name of the file NAME of CASE."
  (expand-file-name name (agent-q-effects-test--case-directory case)))

;;;; Running

(defvar agent-q-effects-test--connected 0
  "How many connections there were to the server of the test.")

(defun agent-q-effects-test--serve ()
  "Return a server that counts who connects."
  (make-network-process :name "aq-effects" :server t :family 'ipv4 :host "127.0.0.1" :service t
                        :noquery t
                        :log (lambda (&rest _) (cl-incf agent-q-effects-test--connected))))

(defun agent-q-effects-test--connect (client)
  "Return a connection through CLIENT to a new image that has the program."
  (let ((connection (agent-q-test-image-another client)))
    (agent-q-test-image-values connection
                               (agent-q-effects-test--text "program.lisp"))
    connection))

(defun agent-q-effects-test--usable-p (connection)
  "Whether the image behind CONNECTION is there and answers."
  (and (agent-q-connection-live-p connection)
       (let ((ends nil))
         (agent-q-connection-ask connection :rex '(cl:+ 1 1) t (lambda (result) (push result ends)))
         (agent-q-test-image-await (lambda () ends) 5)
         (equal ends '((:ok 2))))))

(defun agent-q-effects-test--send (text)
  "Send TEXT of a case with nobody there to approve; return the result's text."
  (pcase-let* ((`(,tool ,approved . ,text) (agent-q-effects-test--parsed text))
               (agent-q-approval-handler
                (agent-q-effects-test--handler approved))
               (result (car (agent-q-execute-tool-calls-sync
                             (list (list :id "c" :name tool
                                         :arguments (agent-q-effects-test--arguments tool text)))
                             10))))
    (or (agent-q-tool-result-error result) (agent-q-tool-result-content result) "")))

(defun agent-q-effects-test--parsed (text)
  "Return the tool that TEXT is for, whether its call is approved, and the rest."
  (if (string-match "\\`@\\(!?\\)\\([a-z_]+\\) ?" text)
      (cons (match-string 2 text)
            (cons (equal "!" (match-string 1 text)) (substring text (match-end 0))))
    (cons "eval_form" (cons nil text))))

(defun agent-q-effects-test--arguments (tool text)
  "Return the arguments of TOOL that TEXT is: a property list, or one alone."
  (cond ((equal text "") nil)
        ((string-prefix-p "(:" text) (car (read-from-string text)))
        ((equal tool "describe_symbol") (list :symbol text))
        (t (list :form text))))

(defun agent-q-effects-test--handler (approved)
  "Return who is asked: nobody, or one who takes the call itself where it is APPROVED.
What the call does then is denied.  AGENT_Q_EFFECTS=control allows all."
  (cond ((equal "control" (getenv "AGENT_Q_EFFECTS")) (lambda (&rest _) :approved))
        (approved (lambda (tool _arguments)
                    (if (string-prefix-p "effect/" (agent-q-tool-name tool))
                        '(:denied "no")
                      :approved)))))

(defun agent-q-effects-test--change (case)
  "Return what is otherwise in the files of CASE, or nil."
  (let ((now (agent-q-effects-test--files (agent-q-effects-test--case-directory case))))
    (mapcar #'car
            (cl-set-exclusive-or (agent-q-effects-test--case-before case) now :test #'equal))))

(defun agent-q-effects-test--try (case client connection port)
  "Send CASE through CLIENT to CONNECTION, and return what harm it did, or nil.
There is a server at PORT."
  (agent-q-test-tools-choose connection)
  (let* ((before agent-q-effects-test--connected)
         (fill (lambda (text) (agent-q-effects-test--filled text case client port)))
         (answers (mapcar (lambda (text)
                            (if (agent-q-connection-live-p connection)
                                (agent-q-effects-test--send (funcall fill text))
                              "gone"))
                          (agent-q-effects-test--case-texts case))))
    (when (getenv "AGENT_Q_EFFECTS_ANSWERS")
      (message "%S\n  %S" (agent-q-effects-test--case-texts case) answers))
    (accept-process-output nil 0.02)
    (cond ((agent-q-effects-test--change case))
          ((/= before agent-q-effects-test--connected) "connected")
          ((not (agent-q-connection-live-p connection)) "the image is gone")
          ((cl-some (lambda (check)
                      (not (equal "NIL" (agent-q-test-image-directly
                                         connection
                                         (format "(ignore-errors %s)" (funcall fill check))))))
                    (agent-q-effects-test--case-checks case))
           "what was to be NIL is not"))))

(defun agent-q-effects-test--try-class (cases client port)
  "Try CASES, all of one class, through CLIENT with a server at PORT.
Return those that did harm, each with what."
  (let ((connection (agent-q-effects-test--connect client))
        (harm nil)
        (number 0))
    (unwind-protect
        (progn
          (dolist (case cases)
            (unless (agent-q-effects-test--usable-p connection)
              (agent-q-test-image-kill connection)
              (setq connection (agent-q-effects-test--connect client)))
            (agent-q-effects-test--prepare-files case (cl-incf number))
            (let ((what (condition-case problem
                            (agent-q-effects-test--try case client connection port)
                          ;; Replies that were tampered with are harm, too.
                          (error (agent-q-test-image-kill connection)
                                 (format "%S" problem)))))
              (when what (push (cons case what) harm))))
          ;; Threads, timers and finalizers take their time.
          (when (agent-q-connection-live-p connection)
            (agent-q-test-image-await #'ignore 0.6))
          (dolist (case cases)
            (let ((what (and (not (assq case harm)) (agent-q-effects-test--change case))))
              (when what (push (cons case (list "later" what)) harm)))))
      (agent-q-test-image-kill connection)
      (dolist (case cases)
        (delete-directory (agent-q-effects-test--case-directory case) t)))
    (nreverse harm)))

(defun agent-q-effects-test--harm (client)
  "Try the corpus through CLIENT; return the cases that did harm, each with what."
  (let* ((server (agent-q-effects-test--serve))
         (port (process-contact server :service))
         (wanted (or (getenv "AGENT_Q_EFFECTS_CLASS") ""))
         (classes (seq-filter (lambda (class) (string-match-p wanted (car class)))
                              (seq-group-by #'agent-q-effects-test--case-class
                                            (agent-q-effects-test--cases)))))
    (unwind-protect
        (cl-loop for (class . cases) in classes
                 for harm = (agent-q-effects-test--try-class cases client port)
                 do (message "%3d of %3d did harm: %s" (length harm) (length cases) class)
                 (pcase-dolist (`(,case . ,what) harm)
                   (message "      %s  [%s]"
                            (mapconcat #'identity (agent-q-effects-test--case-texts case) " --- ")
                            what))
                 append harm)
      (delete-process server))))

(defmacro agent-q-effects-test--on-each (name docstring)
  "Define a test NAME for each client with DOCSTRING."
  `(progn
     ,@(mapcar
        (lambda (client)
          `(ert-deftest ,(intern (format "agent-q-%s/%s" name client)) ()
             ,docstring
             :tags '(:image ,(intern (format ":%s" client)))
             (let ((mode (getenv "AGENT_Q_EFFECTS")))
               (unless mode (ert-skip "AGENT_Q_EFFECTS is not set"))
               (unless (agent-q-test-image-connection ',client)
                 (ert-skip (format "No SBCL through %s" ',client)))
               (let ((harm (agent-q-effects-test--harm ',client)))
                 (message "%d of %d cases did harm" (length harm)
                          (length (agent-q-effects-test--cases)))
                 (when (equal mode "check")
                   (should-not harm))))))
        (agent-q-test-image-clients name))))

(ert-deftest agent-q-effects-the-corpus-is-large ()
  "There are forty classes at least, and a case in each."
  (let ((cases (agent-q-effects-test--cases)))
    (should (>= (length (delete-dups (mapcar #'agent-q-effects-test--case-class cases))) 40))
    (should (>= (length cases) 250))
    (should (cl-every #'agent-q-effects-test--case-texts cases))))

(agent-q-effects-test--on-each
  effects-no-call-does-harm-unasked
  "With everybody denying no call of the corpus changes a file, connects or ends the image.")

(provide 'agent-q-effects-test)
;;; agent-q-effects-test.el ends here
